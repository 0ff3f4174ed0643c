// A store with something in every view, made over the API as any program would make it.

import { until } from './harness.mjs';

const claim = async (server, queue, limit) =>
  (await server.post('/api/v1/work/claim', { worker: 'shop-1', queues: [queue], kinds: KINDS, limit })).jobs;

const KINDS = ['shop.charge', 'shop.mail', 'shop.import', 'shop.pack', 'shop.ship'];

const finish = (server, jobs, outcome) =>
  server.post('/api/v1/work/finish', { results: jobs.map((job) => ({ lease: job.lease.token, outcome: outcome(job) })) });

// Submits, and ends each job as its payload says.
const work = async (server, count, queue, outcome) => {
  let left = count;
  await until(`the jobs of ${queue}`, async () => {
    const jobs = await claim(server, queue, 100);
    if (jobs.length > 0) await finish(server, jobs, outcome);
    left -= jobs.length;
    return left <= 0;
  });
};

export const failed = (message, errorType) => ({ type: 'failed', class: 'permanent', message, error_type: errorType });

export const fill = async (server) => {
  const batch = (count, make) => server.post('/api/v1/jobs/batch', { jobs: Array.from({ length: count }, (_, at) => make(at)) });
  await batch(40, (at) => ({ kind: 'shop.charge', queue: 'payments', max_retries: 0, payload: { order: 1000 + at, card: { brand: 'visa' }, region: at % 5 ? 'eu' : 'us' } }));
  await work(server, 40, 'payments', (job) => failed(`the card was declined: order ${job.payload.order}`, 'shop::CardDeclined'));
  await batch(12, (at) => ({ kind: 'shop.import', queue: 'imports', max_retries: 0, payload: { file: `orders-${at}.csv` } }));
  await work(server, 12, 'imports', () => failed('column `price` is missing', 'shop::BadFile'));
  await batch(60, (at) => ({ kind: 'shop.mail', queue: 'mail', payload: { to: `customer-${at}@example.com`, password: 'hunter2' } }));
  await work(server, 50, 'mail', () => ({ type: 'succeeded', result: { sent: true } }));
  await batch(3, () => ({ kind: 'nobody.knows', tags: ['live'], business_key: undefined }));
  const { items: [dead] } = await server.get('/api/v1/dead-letters?queue=payments&limit=1');
  const { items: incidents } = await server.get('/api/v1/incidents');
  const incident = incidents.find((one) => one.kind === 'shop.charge');
  const { plan } = await server.post('/api/v1/redrives', { incident: incident.fingerprint, note: 'after the fix' });
  const workflow = await server.post('/api/v1/workflows', {
    name: 'order 4711',
    nodes: [
      { name: 'charge', kind: 'shop.charge', queue: 'orders' },
      { name: 'pack', kind: 'shop.pack', queue: 'orders', after: ['charge'] },
      { name: 'mail', kind: 'shop.mail', queue: 'orders', after: ['charge'] },
      { name: 'ship', kind: 'shop.ship', queue: 'orders', after: ['pack'] },
    ],
  });
  await work(server, 1, 'orders', () => ({ type: 'succeeded' }));
  await server.call('PUT', '/api/v1/schedules/nightly', { cron: '0 3 * * *', kind: 'shop.import', queue: 'imports' });
  await server.call('PUT', '/api/v1/schedules/often', { every_ms: 3_600_000, kind: 'shop.mail', queue: 'mail' });
  await server.call('PUT', '/api/v1/limits/mails', { kind: 'shop.mail', concurrency: 5 });
  await server.post('/api/v1/rules', { id: 'bad-files', note: 'a file does not mend itself', matches: { error_type: 'shop::BadFile' }, action: 'permanent', enabled: false });
  await server.post('/api/v1/signals', { key: 'approved/4711', payload: { by: 'ann' } });
  await batch(1, () => ({ kind: 'shop.charge', queue: 'approvals' }));
  await work(server, 1, 'approvals', () => ({ type: 'waiting', signal: 'approved/4712', timeout_ms: 3_600_000 }));
  const rows = await server.post('/api/v1/batches', {
    name: 'import 7', jobs: Array.from({ length: 3 }, () => ({ kind: 'shop.import', queue: 'rows' })),
  });
  const [importing] = await claim(server, 'rows', 1);
  const noPrice = [7, 12].map((line) => ({ error: 'it has no price', error_type: 'shop::NoPrice', item: { line }, keep: true }));
  await server.post('/api/v1/work/reject', { lease: importing.lease.token, items: noPrice, seen: 40 });
  await finish(server, [importing], () => ({ type: 'succeeded', result: { lines: 38 } }));
  const rejected = await until('the rejects are counted', async () => (await server.get('/api/v1/reject-groups')).items[0]);
  await server.post('/api/v1/circuits/bank/open', { for_ms: 3_600_000 });
  await server.post('/api/v1/queues/imports/pause', { note: 'the files are wrong' });
  return [
    ['overview', '/', /things? needs? you/],
    ['incidents', '/incidents', /the card was declined/],
    ['incident', `/incidents/${incident.fingerprint}`, /40 jobs of shop\.charge are dead of this now/],
    ['redrives', '/redrives', /planned/],
    ['redrive-new', `/redrives/new?incident=${incident.fingerprint}`, /Dry run/],
    ['redrive', `/redrives/${plan.id}`, /Nothing was driven yet/],
    ['rejects', '/rejects', /it has no price/],
    ['reject', `/rejects/${rejected.fingerprint}`, /it has no price/],
    ['parked', '/parked', /By reason/],
    ['jobs', '/jobs', /shop\.mail/],
    ['jobs-failed', '/jobs?status=failed', /Drive these again/],
    ['jobs-change', '/jobs/change?status=pending&queue=orders&change=cancel', /Cancel 2 jobs/],
    ['job', `/jobs/${dead.id}`, /the card was declined/],
    ['submit', '/jobs/new', /Payload, as JSON/],
    ['queues', '/queues', /payments/],
    ['workflows', '/workflows', /order 4711/],
    ['workflow', `/workflows/${workflow.id}`, /charge/],
    ['batches', '/batches', /import 7/],
    ['batch', `/batches/${rows.id}`, /of 3 jobs/],
    ['signals', '/signals', /approved\/4712/],
    ['schedules', '/schedules', /nightly/],
    ['schedule', '/schedules/nightly', /Last results/],
    ['workers', '/workers', /live/],
    ['bridges', '/bridges', /No bridges yet/],
    ['handoffs', '/handoffs', /No hand-offs yet/],
    ['circuits', '/circuits', /bank/],
    ['limits', '/limits', /mails/],
    ['rules', '/rules', /bad-files/],
    ['archive', '/archive', /Nothing has been archived yet/],
    ['alerts', '/alerts', /No alerts sent yet/],
    ['webhooks', '/webhooks', /No webhooks yet/],
    ['tokens', '/tokens', /No tokens yet/],
    ['retry-budgets', '/retry-budgets', /A kind may retry as often as a share of its first runs/],
    ['retention', '/retention', /Dead letters\s+90 d/],
    ['audit', '/audit', /\/api\/v1\/limits\/mails/],
    ['find', '/find?q=declined', /the card was declined/],
  ];
};

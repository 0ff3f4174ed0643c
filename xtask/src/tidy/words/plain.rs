//! Words that need no entry in the glossary: an engineer brings them along from Rust, SQL, HTTP, operating systems,
//! queues and tests. What is particular to Backstop belongs into the glossary instead.

/// Every such word, by where it comes from. Forms of a word (`requests`, `requested`) are known by it.
pub(super) const WORDS: [&str; 8] = [EVERYDAY, RUST, DATABASES, HTTP, SYSTEM, SECURITY, QUEUES, TESTS];

const EVERYDAY: &str = "\
    about add allow and approval at backstop begin by call cancel change chart choice class close calendar colour \
    compare \
    comparison complete condition conflict danger day decided delivered detail done draft earlier edit effect empty \
    entry equal \
    explain explanation \
    durable fact history replay \
    extra fail far found from full given goal growth hand hint idle illegal into invalid known last lead level \
    live loaded \
    local location look loop lost made many meaning measure move name near need new newest no note notice \
    number observe of on one open origin over page part passes patience pending phase picture place plain play point \
    position prepared problem quantity ran raw read ready reference related reserve resume reveal room second see \
    seen send sent served settled share show shown sighting silent size skip sort standard start step stop \
    strict summary \
    support survey taken target time total trial try undo unknown unread up update use user view visit wait watch way \
    with written";

const RUST: &str = "\
    argument as box builder bulk byte cache collect comment context count data default derive error executor expect \
    field future get guard handle hash health info inline input inspect json label layer lex line list log lookup \
    match mode option output owner package params parse pattern prefix property random randomness range ref registry \
    reply resolve result ring search secret seed separator sequence set shape source space spec stream system task \
    text tokio trait tree value verb weak write";

const DATABASES: &str = "\
    backend batch candidate cell column commit cursor database delete dialect diesel filter flush insert lock mariadb \
    migrate mysql packet pgbouncer postgres query reader redis replica row sample schema selector session \
    snapshot sql sqlite sqlx synchronous table transaction transition transport";

const HTTP: &str = "\
    address answer api body client connection delivery header host http hub link listen message network path \
    peer port proxy publish remote request response route server service sse status subscriber subscription \
    throttle webhook";

const SYSTEM: &str = "\
    app block cgroup cli command completions config daemon delegated doctor exit file folder global kill launch memory \
    metered node \
    process processor program reload restart scale screen section setting signal span tick timestamp trace trap";

const SECURITY: &str = "\
    access activity actor admission admit authority caller certificate encryption identity protect redaction \
    redactor sign signer ssl tls";

const QUEUES: &str = "\
    action backlog booking check drain drive driven enqueue event fetch finding finish hook interval jitter leadership \
    maintenance manual operate outbox outcome parent pause peek policy poll progress rate readiness renew renewal \
    report retention retire script submit trigger";

const TESTS: &str = "\
    behaviour bench bug capture contender demo divergence dump echo family figure finder fixture heading leak \
    noop plant sabotage scene stall storm test testbed testing viewer violation";

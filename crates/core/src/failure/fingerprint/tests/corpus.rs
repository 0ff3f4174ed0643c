//! Groups of messages that are one failure each, from many languages, databases and brokers.

/// Each inner list is one incident; no two lists are the same one.
pub(super) const GROUPS: &[&[&str]] = &[
    // Rust: std, hyper, reqwest, serde, sqlx.
    &["Connection refused (os error 111)", "Connection refused  (os error 111)"],
    &[
        "No such file or directory (os error 2): /srv/a/b.csv",
        "No such file or directory (os error 2): /data/x.json",
    ],
    &["Permission denied (os error 13): /srv/a/b.csv", "Permission denied (os error 13): ./b.csv"],
    &[
        "error sending request for url (https://api.example.com/v1/orders/42): operation timed out",
        "error sending request for url (https://api.example.com/v1/orders/77812?expand=lines): operation timed out",
    ],
    &[
        "error sending request for url (https://api.example.com/v1/orders/42): connection closed before message completed",
        "error sending request for url (https://api.example.com/v1/orders/43): connection closed before message completed",
    ],
    &[
        "HTTP status server error (503 Service Unavailable) for url (https://pay.example/charge/ch_3MtwBwLkdIwHu7ix)",
        "HTTP status server error (503 Service Unavailable) for url (https://pay.example/charge/ch_1AbCdEfGh2IjKlMn)",
    ],
    &[
        "invalid type: string \"abc\", expected u64 at line 3 column 17",
        "invalid type: string \"a much longer value\", expected u64 at line 120 column 4",
    ],
    &["missing field `amount` at line 1 column 83", "missing field `total` at line 9 column 2"],
    &[
        "thread 'main' panicked at src/worker.rs:42:13:\nindex out of bounds: the len is 3 but the index is 7",
        "thread 'tokio-runtime-worker' panicked at src/worker.rs:51:9:\nindex out of bounds: the len is 0 but the index is 0",
    ],
    &[
        "pool timed out while waiting for an open connection",
        "pool timed out  while waiting for an open connection\n",
    ],
    &[
        "deadline has elapsed after 30s",
        "deadline has elapsed after 1.204s",
        "deadline has elapsed after 250ms",
    ],
    // PostgreSQL.
    &[
        "duplicate key value violates unique constraint \"users_pkey\": Key (id)=(42) already exists.",
        "duplicate key value violates unique constraint \"users_pkey\": Key (id)=(77120) already exists.",
    ],
    &["ERROR: deadlock detected (SQLSTATE 40P01)", "ERROR:  deadlock detected (SQLSTATE 40P01)"],
    &[
        "ERROR: could not serialize access (SQLSTATE 40001)",
        "ERROR:  could not serialize access (SQLSTATE 40001)",
    ],
    &[
        "ERROR: could not serialize access (SQLSTATE 40002)",
        "ERROR:  could not serialize access (SQLSTATE 40002)",
    ],
    &[
        "Process 1234 waits for ShareLock on transaction 5678; blocked by process 91011.",
        "Process 7 waits for ShareLock on transaction 1; blocked by process 22.",
    ],
    &["relation \"orders\" does not exist", "relation \"users_2024\" does not exist"],
    &[
        "password authentication failed for user \"app\"",
        "password authentication failed for user \"report\"",
    ],
    &["canceling statement due to statement timeout", "canceling statement due to statement timeout "],
    &["canceling statement due to user request", " canceling statement due to user request"],
    &[
        "FATAL: no pg_hba.conf entry for host \"10.1.2.3\", user \"app\", database \"jobs\", SSL off",
        "FATAL: no pg_hba.conf entry for host \"10.9.9.9\", user \"etl\", database \"x\", SSL off",
    ],
    // MySQL, MariaDB, SQLite, Oracle, SQL Server, MongoDB.
    &[
        "Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction",
        "Error 1213 (40001):  Deadlock found when trying to get lock; try restarting transaction",
    ],
    &[
        "Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction",
        "Error 1205 (HY000): Lock wait timeout exceeded;  try restarting transaction",
    ],
    &["Duplicate entry '42-7' for key 'orders.PRIMARY'", "Duplicate entry 'ann' for key 'users.PRIMARY'"],
    &[
        "ERROR 1045 (28000): Access denied for user 'app'@'10.0.0.7' (using password: YES)",
        "ERROR 1045 (28000): Access denied for user 'root'@'db-3' (using password: YES)",
    ],
    &["database is locked (code 5)", "database is locked  (code 5)"],
    &["database disk image is malformed (code 11)", "database disk image is malformed (code 11) "],
    &["UNIQUE constraint failed: users.email", "UNIQUE constraint failed:  users.email"],
    &[
        "ORA-00001: unique constraint (APP.PK) violated on row 12",
        "ORA-00001: unique constraint (APP.PK) violated on row 9981",
    ],
    &[
        "ORA-00060: deadlock detected while waiting for resource 4",
        "ORA-00060: deadlock detected while waiting for resource 17",
    ],
    &[
        "Transaction (Process ID 52) was deadlocked on lock resources with another process",
        "Transaction (Process ID 1077) was deadlocked on lock resources with another process",
    ],
    &[
        "E11000 duplicate key error collection: app.users index: _id_ dup key: { _id: ObjectId('507f1f77bcf86cd799439011') }",
        "E11000 duplicate key error collection: app.users index: _id_ dup key: { _id: ObjectId('65a1f77bcf86cd7994390222') }",
    ],
    // Redis, Kafka, RabbitMQ, NATS.
    &["MOVED 3999 127.0.0.1:6381", "MOVED 12182 10.0.0.3:6379"],
    &["ASK 3999 127.0.0.1:6381", "ASK 16001 10.0.0.3:6379"],
    &["LOADING Redis is loading the dataset in memory", "LOADING  Redis is loading the dataset in memory"],
    &[
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "WRONGTYPE Operation against a key holding the wrong kind of value\n",
    ],
    &[
        "kafka-2.kafka.svc:9092/2: Connect to ipv4#10.42.0.17:9092 failed: Connection refused (after 12ms in state CONNECT)",
        "kafka-0.kafka.svc:9092/0: Connect to ipv4#10.42.0.99:9092 failed: Connection refused (after 3ms in state CONNECT)",
    ],
    &[
        "Offset 1844674407 out of range for partition events-12",
        "Offset 17 out of range for partition events-3",
    ],
    &["NOT_FOUND - no queue 'jobs.high' in vhost '/'", "NOT_FOUND - no queue 'mail' in vhost 'prod'"],
    &["PRECONDITION_FAILED - unknown delivery tag 17", "PRECONDITION_FAILED - unknown delivery tag 90321"],
    &["nats: timeout on subject jobs.high", "nats:  timeout on subject jobs.high"],
    // Java.
    &[
        "java.net.SocketTimeoutException: Read timed out\n\tat java.base/java.net.SocketInputStream.read(SocketInputStream.java:288)",
        "java.net.SocketTimeoutException: Read timed out\n\tat com.acme.Http.get(Http.java:12)\n\t... 40 more",
        "java.net.SocketTimeoutException: Read timed out",
    ],
    &[
        "java.lang.NullPointerException: Cannot invoke \"String.length()\" because \"name\" is null",
        "java.lang.NullPointerException: Cannot invoke \"Order.total()\" because \"order\" is null",
    ],
    &["java.lang.OutOfMemoryError: Java heap space", "java.lang.OutOfMemoryError:  Java heap space"],
    &[
        "com.acme.Order@6d06d69c cannot be cast to com.acme.Invoice",
        "com.acme.Order@1b28cdfa cannot be cast to com.acme.Invoice",
    ],
    // Python.
    &[
        "Traceback (most recent call last):\n  File \"/srv/a.py\", line 88, in run\n    row = rows[7]\nIndexError: list index out of range",
        "Traceback (most recent call last):\n  File \"/srv/b.py\", line 3, in main\n    x[0]\n    ~^^^\nIndexError: list index out of range",
        "IndexError: list index out of range",
    ],
    &["KeyError: 'amount'", "KeyError: 'total'"],
    &[
        "HTTPSConnectionPool(host='api.example.com', port=443): Read timed out. (read timeout=30)",
        "HTTPSConnectionPool(host='10.0.0.7', port=8443): Read timed out. (read timeout=5.5)",
    ],
    &["[Errno 111] Connection refused", "[Errno 111]  Connection refused"],
    &["[Errno 104] Connection reset by peer", "[Errno 104] Connection reset by peer\n"],
    &[
        "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "'utf-8' codec can't decode byte 0x9d in position 1887: invalid start byte",
    ],
    // Go.
    &[
        "dial tcp 10.96.0.1:443: i/o timeout",
        "dial tcp 192.168.7.20:5432: i/o timeout",
        "dial tcp [fd00::7]:443: i/o timeout",
    ],
    &[
        "dial tcp 10.96.0.1:443: connect: connection refused",
        "dial tcp 10.0.0.2:80: connect: connection refused",
    ],
    &[
        "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:9 +0x1d",
        "panic: runtime error: index out of range [9] with length 2\n\ngoroutine 44 [running]:\nmain.run()\n\t/src/run.go:77 +0x9f",
    ],
    &[
        "lookup db-3.internal on 10.0.0.2:53: no such host",
        "lookup db-14.internal on 10.0.0.10:53: no such host",
    ],
    &["exit status 1", "exit status  1"],
    &["exit status 137", "exit status 137\n"],
    // Node.js.
    &[
        "connect ECONNREFUSED 10.0.3.14:6379",
        "connect ECONNREFUSED 127.0.0.1:5432",
        "connect ECONNREFUSED ::1:5432",
    ],
    &["connect ETIMEDOUT 10.0.3.14:6379", "connect ETIMEDOUT 10.8.0.1:443"],
    &[
        "ENOENT: no such file or directory, open '/srv/a.txt'",
        "ENOENT: no such file or directory, open '/tmp/x/y.json'",
    ],
    &[
        "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
        "Unexpected token 'H', \"Hello\"... is not valid JSON",
    ],
    &[
        "TypeError: x is not a function\n    at Object.run (/srv/app/index.js:12:5)\n    at process (node:internal:1:1)",
        "TypeError: x is not a function\n    at Job.run (/srv/app/jobs.js:99:31)",
    ],
    &[
        "Invalid `prisma.user.create()` invocation: P2002",
        "Invalid `prisma.order.update()` invocation: P2002",
    ],
    &[
        "Invalid `prisma.user.create()` invocation: P2025",
        "Invalid `prisma.order.update()` invocation: P2025",
    ],
    // HTTP, AWS, JSON bodies.
    &["HTTP 503 from upstream", "HTTP/1.1 503 from upstream", "HTTP/2 503 from upstream"],
    &["HTTP 404 from upstream", "HTTP/1.1 404 from upstream"],
    &[
        "request failed with status code 429 after 3 attempts",
        "request failed with status code 429 after 12 attempts",
    ],
    &[
        "request failed with status code 500 after 3 attempts",
        "request failed with status code 500 after 5 attempts",
    ],
    &[
        "An error occurred (ThrottlingException) when calling the PutItem operation; RequestId: 4442587FB7D0A2F9",
        "An error occurred (ThrottlingException) when calling the PutItem operation; RequestId: TX234S0F24A06C7Q",
    ],
    &[
        "User: arn:aws:sts::123456789012:assumed-role/worker/i-0abc123def4567890 is not authorized to perform: s3:PutObject",
        "User: arn:aws:sts::210987654321:assumed-role/worker/i-0fff123def4567891 is not authorized to perform: s3:PutObject",
    ],
    &[
        "{\"error\":\"rate limited\",\"code\":429,\"request_id\":\"abc\"}",
        "{\"error\":\"rate limited\",\"code\":429,\"request_id\":\"0192f3a4-77aa-7bbb-8ccc-1234567890ab\"}",
    ],
    &[
        "{\"error\":\"invalid grant\",\"code\":400,\"request_id\":\"abc\"}",
        "{\"error\":\"invalid grant\",\"code\":400,\"request_id\":\"def\"}",
    ],
    // SMTP, containers, jobs, times, other languages.
    &[
        "550 5.1.1 <ann@example.org>: Recipient address rejected",
        "550 5.1.1 <bob@mail.example.net>: Recipient address rejected",
    ],
    &["452 4.2.2 mailbox of ann@example.org is full", "452 4.2.2 mailbox of bob@example.net is full"],
    &[
        "pod web-7d9f8b6c5-x2x9z was evicted: used 512Mi",
        "pod web-6bd77c4d9f-abcde was evicted: used 98304Ki",
    ],
    &[
        "job 0192f3a4-77aa-7bbb-8ccc-1234567890ab was lost by worker-12",
        "job 5f0c3f1e-0d3b-4a55-9a0e-2f2b5a8d9e10 was lost by worker-7",
    ],
    &[
        "certificate expired on 2024-05-01T10:00:00Z",
        "certificate expired on Wed, 01 May 2024 10:00:00 GMT",
        "certificate expired on 2024-05-01 10:00:00 UTC",
    ],
    &["batch of 500 rows took 12.5 seconds", "batch of 1 rows took 1 second", "batch of 20 rows took 800ms"],
    &[
        "nie znaleziono pliku „raport.pdf” w katalogu /dane",
        "nie znaleziono pliku „faktura 7.pdf” w katalogu /srv/dane",
    ],
    &["ошибка: таблица «заказы» не найдена", "ошибка: таблица «клиенты» не найдена"],
    &["接続がタイムアウトしました: 30秒", "接続がタイムアウトしました: 5秒"],
    &["数据库连接失败：超时 30 秒", "数据库连接失败：超时 9 秒"],
    &["signal: 9, SIGKILL: kill", "signal: 9,  SIGKILL: kill"],
    &["signal: 15, SIGTERM: termination signal", "signal: 15, SIGTERM:  termination signal"],
];

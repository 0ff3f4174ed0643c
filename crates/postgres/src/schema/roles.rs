//! Roles with the least that each part of a deployment needs, as SQL that can be printed or applied.

use crate::schema::Schema;

/// Each role without the schema's name before it: what it is for, and what it may do.
const ROLES: [(&str, &str, &[&str]); 5] = [
    (
        "migrator",
        "creates and migrates the tables",
        &[
            "GRANT USAGE, CREATE ON SCHEMA backstop. TO $role",
            "GRANT ALL ON ALL TABLES IN SCHEMA backstop. TO $role",
            "GRANT ALL ON ALL SEQUENCES IN SCHEMA backstop. TO $role",
        ],
    ),
    (
        "server",
        "everything but migrations: the program `backstop up`, operators",
        &[
            "GRANT USAGE ON SCHEMA backstop. TO $role",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA backstop. TO $role",
            "REVOKE INSERT, UPDATE, DELETE ON backstop.meta FROM $role",
            "GRANT USAGE ON ALL SEQUENCES IN SCHEMA backstop. TO $role",
            // A restore may have lost where the fences were: whoever claims sets them right.
            "GRANT UPDATE ON SEQUENCE backstop.fence TO $role",
        ],
    ),
    (
        "worker",
        "runs jobs, follows failure rules and does the maintenance duties",
        &[
            "GRANT USAGE ON SCHEMA backstop. TO $role",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA backstop. TO $role",
            "REVOKE INSERT, UPDATE, DELETE ON backstop.meta FROM $role",
            // A failure rule may pause a queue, and nobody forgets one.
            "REVOKE DELETE ON backstop.queue FROM $role",
            "GRANT USAGE ON ALL SEQUENCES IN SCHEMA backstop. TO $role",
            "GRANT UPDATE ON SEQUENCE backstop.fence TO $role",
        ],
    ),
    (
        "enqueuer",
        "submits jobs, and cannot take, change or cancel any",
        &[
            "GRANT USAGE ON SCHEMA backstop. TO $role",
            "GRANT SELECT ON backstop.meta, backstop.lane, backstop.job, backstop.ready, backstop.claim, \
             backstop.record, backstop.done, backstop.idempotency, backstop.business, backstop.archive, \
             backstop.tally TO $role",
            "GRANT INSERT ON backstop.lane, backstop.job, backstop.ready, backstop.tally, backstop.tag, \
             backstop.idempotency, backstop.business, backstop.place, backstop.line_change, backstop.turn TO $role",
            // A lock on the job that holds a key asks for the right to update something of its row.
            "GRANT UPDATE (rowed) ON backstop.ready TO $role",
            "GRANT UPDATE (lane) ON backstop.record TO $role",
            "GRANT UPDATE (worker) ON backstop.claim TO $role",
            "GRANT SELECT ON backstop.tag TO $role",
            // Each row of it becomes a job of the transaction that made it.
            "GRANT SELECT, INSERT, DELETE ON backstop.laneless TO $role",
            "GRANT SELECT ON backstop.gate TO $role",
        ],
    ),
    (
        "reader",
        "looks, and changes nothing: dashboards, `backstop job list`",
        &[
            "GRANT USAGE ON SCHEMA backstop. TO $role",
            "GRANT SELECT ON ALL TABLES IN SCHEMA backstop. TO $role",
        ],
    ),
];

/// Gives whoever may use one table the same rights on others, so that roles that were made for an earlier version need
/// not be made again.
macro_rules! as_on {
    ($old:literal, $($new:literal),+) => {
        concat!(
            "DO $grants$ DECLARE allowed record; BEGIN
    FOR allowed IN SELECT a.privilege_type AS what, a.grantee::regrole AS whom
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = '", $old, "'::regclass AND a.grantee NOT IN (0, c.relowner)
        AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP",
            $(" EXECUTE format('GRANT %s ON ", $new, " TO %s', allowed.what, allowed.whom);",)+
            " END LOOP;
END $grants$"
        )
    };
}

/// Whoever may write incidents may write documents.
pub(crate) const AS_BEFORE: &str = as_on!("backstop.incident", "backstop.document");

/// Whoever may claim may use cursors.
pub(crate) const CURSORS_AS_CLAIMS: &str =
    as_on!("backstop.claim", "backstop.arrival", "backstop.arrival_floor", "backstop.cursor");

/// Whoever may claim may give the turn on in a line.
pub(crate) const LINES_AS_CLAIMS: &str = as_on!("backstop.claim", "backstop.line");

/// Whoever may bring a business key may bring an ordering key, and count what waits.
pub(crate) const PLACES_AS_KEYS: &str =
    as_on!("backstop.business", "backstop.place", "backstop.line_change", "backstop.tally");

/// Whoever may bring a business key may bring a limit key.
pub(crate) const TURNS_AS_KEYS: &str = as_on!("backstop.business", "backstop.turn");

/// Whoever may claim may write what runs hold.
pub(crate) const PERMITS_AS_CLAIMS: &str = as_on!("backstop.claim", "backstop.permit");

/// The SQL that makes the roles of a schema, or brings them up to date. Run it after `migrate`, as the tables' owner.
///
/// Give a role to a user with `GRANT backstop_worker TO my_user`.
#[must_use]
pub fn roles(schema: &Schema) -> String {
    let name = schema.name();
    let mut text = format!("-- Roles of the schema {name}: grant them to the users of your programs.\n");
    for (role, purpose, grants) in ROLES {
        let role = format!("{name}_{role}");
        text.push_str(&format!(
            "\n-- {role}: {purpose}\nDO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') THEN \
             CREATE ROLE {role} NOLOGIN; END IF; END $$;\n"
        ));
        for grant in grants {
            // The schema itself stands there with the dot that tables have, so that one rule renames both.
            let grant = grant.replace("SCHEMA backstop. ", &format!("SCHEMA {name} "));
            text.push_str(&schema.text(&grant).replace("$role", &role));
            text.push_str(";\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_made_for_its_schema() {
        let text = roles(&Schema::named("jobs").expect("a plain name"));
        for role in ["migrator", "server", "worker", "enqueuer", "reader"] {
            assert!(text.contains(&format!("CREATE ROLE jobs_{role} NOLOGIN")), "{text}");
        }
        assert!(!text.contains("backstop.") && !text.contains("SCHEMA backstop"), "{text}");
        assert!(!text.contains("$role"), "{text}");
    }
}

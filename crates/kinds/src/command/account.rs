//! Who programs run as, and what they see of who starts them.

use std::{fs, io};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Where users are looked up. Those that only a directory service knows need their group said.
const PASSWORDS: &str = "/etc/passwd";

/// The group that belongs to a user.
pub(super) fn primary_group(user: u32) -> Option<u32> {
    group_in(&fs::read_to_string(PASSWORDS).ok()?, user)
}

/// Reads lines such as `name:password:user:group:...`; the first with this user counts.
fn group_in(passwords: &str, user: u32) -> Option<u32> {
    passwords.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let listed: u32 = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        (listed == user).then_some(group)
    })
}

/// Hides this process from the programs that it starts: those that run as its own user could read its environment and
/// its memory in `/proc`, with every secret in them. Call it first in `main`. What it costs: no core dumps, and no
/// debugger but that of root. Programs that are started are not hidden by it, and root sees everything.
///
/// # Errors
/// When the kernel does not allow it.
pub fn hide_process() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_user_tells_its_group() {
        // E4
        let passwords = "root:x:0:0:root:/root:/bin/sh\n# a remark\nbroken:x:7\n+::::::\nann:x:7:70:::\n\
                         bob:x:8:x:::\nbob:x:8:80:::\nbob2:x:8:81:::\n";
        for (user, group) in [(0, Some(0)), (7, Some(70)), (8, Some(80)), (70, None), (9, None)] {
            assert_eq!(group_in(passwords, user), group, "{user}");
        }
    }
}

//! Programs that do nearly anything, known by their names: `--` stops options, and these need none.
//!
//! It is a net for what is listed without a second thought, not a proof: no list of names is complete, and a copy may
//! have any name.

use std::path::Path;

/// How a program comes to do nearly anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Danger {
    /// By its arguments: patterns that say which it may get are a barrier.
    ByArguments(&'static str),
    /// By what it reads, and that is the payload's: JSON such as `"$(reboot)"` is a command to a shell. No pattern
    /// for arguments is a barrier, because there is always the call without any.
    ByInput(&'static str),
}

/// What programs do, and their names.
type Names = (&'static str, &'static str);

const BY_INPUT: &[Names] = &[
    (
        "runs what it reads from its input",
        "sh ash bash rbash dash ksh mksh yash zsh fish csh tcsh elvish nu xonsh pwsh python ipython pypy \
         perl ruby irb node nodejs deno bun php lua luajit tclsh wish expect R julia octave guile groovy \
         m4 dc at ed ex vi vim vim.basic vim.tiny vim.nox vim.gtk nvim emacs",
    ),
    ("takes arguments or commands from its input", "xargs parallel"),
    (
        "starts a shell that reads its input",
        "su runuser pkexec newgrp sg chroot unshare nsenter setarch linux32 linux64 capsh fakeroot \
         script ssh rsh",
    ),
];

const BY_ARGUMENTS: &[Names] = &[
    (
        "runs other programs",
        "env find awk gawk mawk nawk original-awk sed tar bsdtar git hg svn rsync busybox toybox \
         coreutils nice ionice chrt taskset nohup timeout setsid stdbuf time watch flock sudo doas \
         setpriv less more man make gmake ninja cmake cargo npm npx pip docker podman kubectl \
         systemd-run systemctl crontab screen tmux bwrap strace ltrace gdb valgrind perf sqlite psql \
         mysql mariadb gs java run-parts start-stop-daemon ld.so ld-linux.so ld-linux-x86-64.so \
         ld-linux-aarch64.so ld-musl-x86_64.so ld-musl-aarch64.so",
    ),
    (
        "writes, moves or removes files",
        "tee sponge dd cp mv ln link install rm rmdir unlink shred truncate touch mkdir mkfifo mknod \
         mktemp chmod chown chgrp split csplit patch cpio ar zip unzip 7z 7za 7zr gzip gunzip bzip2 \
         bunzip2 xz unxz zstd mount umount magick convert convert-im6.q16 mogrify mogrify-im6.q16 ffmpeg",
    ),
    (
        "reaches other machines",
        "curl wget aria2c nc nc.openbsd nc.traditional ncat netcat socat telnet ftp sftp scp openssl",
    ),
];

/// What is known of the program at this path.
pub(super) fn danger(path: &Path) -> Option<Danger> {
    let name = path.file_name()?.to_str()?;
    let among = |names: &[Names]| {
        let found = names.iter().find(|(_, names)| names.split(' ').any(|known| is(name, known)));
        found.map(|(what, _)| *what)
    };
    among(BY_INPUT).map(Danger::ByInput).or_else(|| among(BY_ARGUMENTS).map(Danger::ByArguments))
}

/// A name may carry a version: `python3.13`, `lua5.4`, `gawk-5.2.1`.
fn is(name: &str, known: &str) -> bool {
    let rest = name.strip_prefix(known);
    rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names_with_and_without_a_version() {
        // E4
        let danger = |name: &str| danger(&Path::new("/usr/bin").join(name));
        for name in
            ["sh", "bash", "dash", "ksh93", "python3", "python3.13", "perl5.36.0", "lua5.4", "vim.tiny"]
        {
            assert_eq!(danger(name), Some(Danger::ByInput("runs what it reads from its input")), "{name}");
        }
        for name in ["xargs", "parallel", "su", "ssh", "chroot", "unshare", "nsenter", "script"] {
            assert!(matches!(danger(name), Some(Danger::ByInput(_))), "{name}");
        }
        for name in ["env", "find", "sed", "mawk", "gawk-5.2.1", "tar", "git", "busybox", "sqlite3", "sudo"] {
            assert_eq!(danger(name), Some(Danger::ByArguments("runs other programs")), "{name}");
        }
        for name in ["nice", "nohup", "timeout", "setsid", "stdbuf", "time", "watch", "docker", "systemd-run"]
        {
            assert_eq!(danger(name), Some(Danger::ByArguments("runs other programs")), "{name}");
        }
        for name in ["tee", "dd", "cp", "mv", "ln", "install", "rm", "curl", "wget", "nc.openbsd"] {
            assert!(matches!(danger(name), Some(Danger::ByArguments(_))), "{name}");
        }
        for name in
            ["id", "true", "finder", "time-report", "git-report", "install.sh", "sha256sum", "lsof", ""]
        {
            assert_eq!(danger(name), None, "{name}");
        }
    }

    #[test]
    fn every_name_stands_once() {
        let all: Vec<&str> =
            BY_INPUT.iter().chain(BY_ARGUMENTS).flat_map(|(_, names)| names.split(' ')).collect();
        for (at, name) in all.iter().enumerate() {
            assert!(!name.is_empty() && !all[..at].contains(name), "{name}");
        }
    }
}

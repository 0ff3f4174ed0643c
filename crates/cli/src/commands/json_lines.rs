//! Where exported jobs go: stdout, or a file that must not be there yet. One JSON document a line.
//!
//! What is removed from the store after it was exported must not be lost with the machine, so a file is synced before a
//! batch counts as kept.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use backstop_server::shape::ExportedJob;

use crate::app::App;
use crate::problem::Problem;

/// A new file of JSON lines.
#[derive(Debug)]
pub(super) struct JsonLinesFile {
    path: PathBuf,
    file: BufWriter<File>,
    kept: u64,
}

impl JsonLinesFile {
    /// Creates the file; one that is there is never written over.
    pub(super) fn create(path: &Path) -> Result<Self, Problem> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Payloads are exported as they are, secrets included.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Problem::refused("file_exists", format!("{} already exists", path.display()))
                    .hint("name a new file: an export never overwrites one")
            }
            _ => Problem::failed("export", format!("cannot create {}: {error}", path.display())),
        })?;
        let keep = Self { path: path.to_owned(), file: BufWriter::new(file), kept: 0 };
        keep.sync_folder()?;
        Ok(keep)
    }

    /// A file that is lost from its folder by a power cut would take everything in it along.
    fn sync_folder(&self) -> Result<(), Problem> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        synced.map_err(|error| self.problem(&error))
    }

    fn problem(&self, error: &io::Error) -> Problem {
        Problem::failed("export", format!("cannot write to {}: {error}", self.path.display()))
    }

    /// Writes a batch, and returns when it is on the disk.
    pub(super) fn batch(&mut self, jobs: &[&str]) -> Result<(), Problem> {
        self.write(jobs).map_err(|error| self.problem(&error))?;
        self.kept += u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn write(&mut self, jobs: &[&str]) -> io::Result<()> {
        for job in jobs {
            self.file.write_all(job.as_bytes())?;
            self.file.write_all(b"\n")?;
        }
        self.file.flush()?;
        self.file.get_ref().sync_data()
    }

    /// Jobs that are in it.
    pub(super) const fn kept(&self) -> u64 {
        self.kept
    }

    /// Its name, as a person may see it.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The documents of exported jobs.
pub(super) fn documents(jobs: &[ExportedJob]) -> Vec<&str> {
    jobs.iter().map(|job| job.document.get()).collect()
}

/// Stdout or a file.
#[derive(Debug)]
pub(super) enum ExportTarget {
    Stdout(u64),
    File(JsonLinesFile),
}

impl ExportTarget {
    /// The file, or stdout when none is named.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Problem> {
        path.map_or(Ok(Self::Stdout(0)), |path| JsonLinesFile::create(path).map(Self::File))
    }

    /// Writes a batch of JSON documents.
    pub(super) fn batch(&mut self, jobs: &[&str], app: &App) -> Result<(), Problem> {
        match self {
            Self::File(keep) => keep.batch(jobs),
            Self::Stdout(count) => {
                *count += u64::try_from(jobs.len()).unwrap_or(u64::MAX);
                jobs.iter().try_for_each(|job| app.out.line(job))
            }
        }
    }

    /// Says how many jobs went where.
    pub(super) fn tell(&self, what: &str, app: &App) -> Result<(), Problem> {
        use crate::output::{clean, figures::counted};
        match self {
            Self::Stdout(count) => app.out.note(&format!("exported {}", counted(*count, what))),
            Self::File(keep) if app.out.json => {
                let document = serde_json::json!({ "exported": keep.kept(), "file": keep.name() });
                app.out.document(&document)?;
            }
            Self::File(keep) => {
                let (count, name) = (counted(keep.kept(), what), keep.name());
                app.out.page(&format!("exported {count} to {}", clean(&name)))?;
            }
        }
        Ok(())
    }
}

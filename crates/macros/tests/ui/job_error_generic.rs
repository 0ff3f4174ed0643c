use backstop_macros::JobError;

#[derive(JobError)]
enum Failed<'a, T> {
    With(&'a T),
}

fn main() {}

//! Long work that can be stopped from outside.
//!
//! Who starts work calls [`stoppable`] with a question that is asked now and then: "stop?". Loops
//! that can take long call [`check`], which unwinds the stack up to [`stoppable`] once the answer
//! was yes. Nothing between has to know: what is dropped on the way cleans up, as after a panic,
//! but nothing is printed. Without [`stoppable`] around it, [`check`] does nothing.
//!
//! Threads started on behalf of the work carry it on with [`carried`]; only the thread that called
//! [`stoppable`] asks the question, since it may be one that only this thread can answer.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Least time between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// The work was stopped and has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The work of this thread.
#[derive(Clone)]
struct Work {
    /// It is to stop.
    stops: Arc<AtomicBool>,
    /// What the thread that started it asks.
    question: Option<Rc<RefCell<Question>>>,
}

struct Question {
    /// `None` while it is being asked.
    ask: Option<Box<dyn FnMut() -> bool>>,
    /// When it is to be asked next.
    next: Instant,
}

impl Question {
    fn is_due(&self) -> bool {
        self.ask.is_some() && self.next <= Instant::now()
    }
}

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Puts the work of before back, also when the stack unwinds.
struct Before(Option<Work>);

impl Drop for Before {
    fn drop(&mut self) {
        WORK.set(self.0.take());
    }
}

/// Does work, which [`check`] stops as soon as `ask` says so. It is asked on this thread, at most
/// twenty times a second.
///
/// # Errors
/// [`Stopped`] when it was.
pub fn stoppable<T>(
    ask: impl FnMut() -> bool + 'static,
    work: impl FnOnce() -> T,
) -> Result<T, Stopped> {
    let question = Question { ask: Some(Box::new(ask)), next: Instant::now() + PAUSE };
    let own = Work { stops: Arc::default(), question: Some(Rc::new(RefCell::new(question))) };
    let before = Before(WORK.replace(Some(own)));
    // What was being changed goes with the stack. What outlives it is left whole at every `check`.
    let result = catch_unwind(AssertUnwindSafe(work));
    drop(before);
    result.or_else(|thrown| match thrown.downcast::<Stopped>() {
        Ok(stopped) => Err(*stopped),
        Err(panic) => resume_unwind(panic),
    })
}

/// Ends the work here if it is to stop; else returns, at once if the question is not due.
pub fn check() {
    // Asked outside of the borrow: a question may do anything.
    let question = WORK.with_borrow(|work| {
        let work = work.as_ref()?;
        if work.stops.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Stopped));
        }
        work.question.as_ref().filter(|question| question.borrow().is_due()).map(Rc::clone)
    });
    let Some(question) = question else { return };
    let ask = question.borrow_mut().ask.take();
    let Some(mut ask) = ask else { return };
    let stops = ask();
    *question.borrow_mut() = Question { ask: Some(ask), next: Instant::now() + PAUSE };
    if stops {
        WORK.with_borrow(|work| {
            work.iter().for_each(|work| work.stops.store(true, Ordering::Relaxed));
        });
        resume_unwind(Box::new(Stopped));
    }
}

/// A closure for another thread, which is stopped with the work of this one.
pub fn carried<T>(task: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    let stops = WORK.with_borrow(|work| work.as_ref().map(|work| Arc::clone(&work.stops)));
    move || {
        let carried = stops.map(|stops| Work { stops, question: None });
        let _before = Before(WORK.replace(carried));
        task()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn work_without_a_question_goes_on() {
        check();
        assert_eq!(stoppable(|| false, || 7), Ok(7));
        check();
    }

    #[test]
    fn a_loop_stops_and_cleans_up() {
        struct Flag(Rc<Cell<bool>>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let (dropped, asked) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let (flag, count) = (Flag(Rc::clone(&dropped)), Rc::clone(&asked));
        let ask = move || {
            count.set(count.get() + 1);
            count.get() == 2
        };
        let stopped = stoppable(ask, || -> u8 {
            let _flag = flag;
            loop {
                check();
            }
        });
        assert_eq!((stopped, asked.get(), dropped.get()), (Err(Stopped), 2, true));
        // What was stopped does not stop what comes next.
        check();
        assert_eq!(stoppable(|| false, check), Ok(()));
    }

    #[test]
    fn threads_stop_with_the_work_they_carry() {
        let joined = stoppable(
            || true,
            || {
                std::thread::scope(|scope| {
                    let other = scope.spawn(carried(|| -> u8 {
                        loop {
                            check();
                        }
                    }));
                    let own = catch_unwind(|| -> u8 {
                        loop {
                            check();
                        }
                    });
                    assert!(other.join().is_err_and(|thrown| thrown.is::<Stopped>()));
                    own.unwrap_or_else(|thrown| resume_unwind(thrown))
                })
            },
        );
        assert_eq!(joined, Err(Stopped));
    }

    #[test]
    fn work_within_work_has_a_question_of_its_own() {
        let outer = stoppable(
            || false,
            || {
                let inner = stoppable(
                    || true,
                    || -> u8 {
                        loop {
                            check();
                        }
                    },
                );
                check();
                inner
            },
        );
        assert_eq!(outer, Ok(Err(Stopped)));
    }

    #[test]
    fn panics_are_no_answer() {
        let thrown =
            catch_unwind(|| stoppable(|| false, || -> u8 { resume_unwind(Box::new(3_u8)) }));
        assert_eq!(thrown.unwrap_err().downcast_ref(), Some(&3_u8));
    }
}

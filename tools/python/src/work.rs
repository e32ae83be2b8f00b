//! Long work: without the interpreter's lock, stopped by Ctrl-C, telling how far it is.

use crate::errors::raised;
use pyo3::prelude::*;
use quincunx::{Outcome, Progress, available_threads};
use quincunx_stop::stoppable;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two calls of a callback.
const PAUSE: Duration = Duration::from_millis(50);

/// Tells a callback `(what, done, of)`, or nobody.
pub(crate) struct Told {
    callback: Option<Py<PyAny>>,
    done: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    what: String,
    of: usize,
    next: Instant,
    /// What the callback raised.
    error: Option<PyErr>,
}

impl Told {
    fn new(callback: Option<Py<PyAny>>) -> Self {
        let state = State { what: String::new(), of: 0, next: Instant::now(), error: None };
        Told { callback, done: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls the callback, unless it has been called a moment ago.
    fn tell(&self, is_due: impl Fn(&State) -> bool) {
        let Some(callback) = &self.callback else { return };
        let done = self.done.load(Ordering::Relaxed);
        let now = self.with_state(|state| {
            let due = state.error.is_none() && is_due(state);
            due.then(|| {
                state.next = Instant::now() + PAUSE;
                (state.what.clone(), done, state.of)
            })
        });
        // Called without the state: it may take as long as it likes.
        let Some(now) = now else { return };
        if let Err(error) = Python::attach(|py| callback.call1(py, now).map(drop)) {
            self.with_state(|state| state.error = Some(error));
        }
    }
}

impl Progress for Told {
    fn start(&self, what: &str, steps: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.with_state(|state| (state.what, state.of) = (what.to_owned(), steps));
        self.tell(|_| true);
    }

    fn step(&self) {
        if self.callback.is_none() {
            return;
        }
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.tell(|state| done >= state.of || state.next <= Instant::now());
    }
}

/// Does work without the interpreter's lock. Ctrl-C stops it where this is the main thread, and so does
/// a callback that raises.
pub(crate) fn busy<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&dyn Progress) -> Outcome<T> + Send,
) -> PyResult<T> {
    let result = py.detach(|| {
        let told = Told::new(progress);
        let interrupted = Rc::new(RefCell::new(None));
        let signal = Rc::clone(&interrupted);
        // The question outlives this call in the eyes of the compiler only.
        let told = std::sync::Arc::new(told);
        let asked = std::sync::Arc::clone(&told);
        let ask = move || {
            let raised = Python::attach(|py| py.check_signals()).err();
            let stops = raised.is_some() || asked.with_state(|state| state.error.is_some());
            *signal.borrow_mut() = raised;
            stops
        };
        let done = stoppable(ask, || work(&*told));
        let error = interrupted.take().or_else(|| told.with_state(|state| state.error.take()));
        match (error, done) {
            (Some(error), _) => Err(Ok(error)),
            (None, Ok(Ok(value))) => Ok(value),
            (None, Ok(Err(failure))) => Err(Err(failure)),
            (None, Err(stopped)) => {
                Err(Err(quincunx::diag::Diagnostic::bug(format!("{stopped:?}")).into()))
            }
        }
    });
    result.map_err(|error| error.unwrap_or_else(|failure| raised(py, &failure)))
}

/// As many threads as are asked for, else as this process may use, which takes longer to find out than
/// many a run.
pub(crate) fn threads(wanted: Option<usize>) -> NonZeroUsize {
    static AVAILABLE: OnceLock<NonZeroUsize> = OnceLock::new();
    let available = || *AVAILABLE.get_or_init(available_threads);
    wanted.and_then(NonZeroUsize::new).unwrap_or_else(available)
}

// Package early answers the signals that come before the program asks for them, and refuses to begin where
// Go's runtime has too few files or too little memory (ulimit -n, -v, -d) and would end with a trace. To
// import it is enough.
//
// A program can ask for signals once its packages are initialised, which takes a second on a busy machine.
// Until then Go's runtime lets SIGINT, SIGTERM and SIGHUP end the process as the system does, with status 143
// for SIGTERM, and drops SIGUSR1. So a function in C that runs before Go's runtime sets handlers, which say
// "weft: interrupted" and end the process with status 130; the runtime hands signals that nobody has asked
// for yet on to them. And it blocks SIGUSR1, which waits until signal.Notify asks for it. Programs that this
// one starts inherit that. Signals that are ignored stay so.
//
// Two moments remain. While the loader looks for libraries, for a few milliseconds, a signal is the system's.
// And from the runtime's start until signal.Notify, SIGQUIT prints the stacks of goroutines, as in any
// program in Go: the runtime hands it on to nobody, and does not let it be blocked.
package early

import "C"

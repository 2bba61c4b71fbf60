package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/internal/refusal"
)

// parentVariable names, in the environment, the process that started this one and that it must not outlive.
// The Python package sets it. The kernel then kills this process when the thread that started it ends,
// however that ends.
const parentVariable = "WEFT_PARENT"

// The main goroutine is on the main thread here, and stays there until endWithParent. A request to the kernel
// lasts as long as the thread that made it, and the main thread lasts as long as the process.
func init() { runtime.LockOSThread() }

// endWithParent makes this process end with its parent, if the environment asks for it. It removes the
// variable from the environment, as the processes that this one starts have another parent.
func endWithParent() {
	defer runtime.UnlockOSThread()
	text := os.Getenv(parentVariable)
	if text == "" {
		return
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		err = errors.New("no number")
	} else {
		err = os.Unsetenv(parentVariable)
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)
	}
	if err != nil {
		cli.SayError(os.Stderr, refusal.Errorf("%s=%s: %w; it is the number of the process that starts weft",
			parentVariable, text, err))
		os.Exit(cli.ExitRefused)
	}
	if os.Getppid() != pid { // the parent has ended already
		os.Exit(cli.ExitFailed)
	}
}

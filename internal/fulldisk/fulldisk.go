// Package fulldisk tests what happens when files cannot grow any more.
package fulldisk

import (
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

const inChild = "WEFT_TEST_FULL_DISK"

// Run runs a test, which calls nothing else, in a process of its own: the limit that full sets is of the
// whole process, and so of the files of package testing.
func Run(t *testing.T, test func(full func(bytes uint64, work func()))) {
	if os.Getenv(inChild) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), inChild+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	test(func(bytes uint64, work func()) {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		work()
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	})
}

// Package fulldisk tests what happens when files cannot grow any more. Tests of writers call it.
package fulldisk

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const inChild = "WEFT_TEST_FULL_DISK"

// Run runs a test, which calls nothing else, in a process of its own: full sets a limit of the whole process,
// which would also stop the files of package testing.
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

// LastByte runs a test that calls nothing else. write writes into a new folder, on a disk that has one byte
// less than its largest file needs. It must return an error, even if that byte is the last of a buffer.
func LastByte(t *testing.T, write func(dir string) error) {
	Run(t, func(full func(uint64, func())) {
		whole := t.TempDir()
		largest := int64(0)
		if err := write(whole); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(whole, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				var info fs.FileInfo
				if info, err = e.Info(); err == nil {
					largest = max(largest, info.Size())
				}
			}
			return err
		})
		if err != nil || largest == 0 {
			t.Fatalf("the largest file has %d bytes, %v", largest, err)
		}
		for _, room := range []int64{largest, largest - 1} {
			dir := t.TempDir()
			full(uint64(room), func() { err = write(dir) })
			if room == largest && err != nil || room < largest && !errors.Is(err, unix.EFBIG) {
				t.Errorf("room for %d of %d bytes: error %v", room, largest, err)
			}
		}
	})
}

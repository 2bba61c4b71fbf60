// Package uitest makes terminals, browsers and machines for tests. Tests of the commands and of their pages
// call it.
package uitest

import (
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
)

// Open makes a pseudo-terminal. output returns what was written to it, once it is closed.
func Open(t *testing.T) (tty *os.File, output func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	all := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // it ends with an error once the terminal is closed
		all <- string(text)
	}()
	return tty, func() string {
		assert.NoError(t, tty.Close())
		return <-all
	}
}

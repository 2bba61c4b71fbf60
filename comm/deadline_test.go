package comm

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestDeadline: a timeout is as long as is said, and the next one begins when it has passed. What is there is
// received. Of an hour in which nobody looks at the ticks, as in a process that is stopped, one counts.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, began, passed := NewDeadline(time.Second), time.Now(), []time.Duration(nil)
		defer d.Stop()
		for len(passed) < 2 {
			_, in := InTime(d, make(chan int))
			assert.Equal(t, false, in)
			passed = append(passed, time.Since(began))
		}
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second}, passed)

		time.Sleep(time.Hour)
		began = time.Now()
		_, _ = InTime(d, make(chan int))
		assert.Equal(t, time.Second-time.Second/ticks, time.Since(began))

		there := make(chan int, 1)
		for _, d := range []*Deadline{d, NewDeadline(0)} {
			there <- 5
			got, in := InTime(d, there)
			assert.Equal(t, 5, got)
			assert.Equal(t, true, in)
		}
	})
}

// TestStopped: a process that is stopped for longer than the timeout goes on with its waits: of ranks of its
// own, of those that take turns, and for the end of their links.
func TestStopped(t *testing.T) {
	const timeout = 3 * time.Second // long enough for a slow machine to go on within
	child, variable := os.Getenv("WEFT_TEST_STOPPED"), "WEFT_TEST_STOPPED"
	if child == "" {
		for _, waits := range []string{"message", "turn", "end"} {
			t.Run(waits, func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(os.Args[0], "-test.run=^TestStopped$")
				cmd.Env = append(os.Environ(), variable+"="+waits)
				cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
				require.NoError(t, cmd.Start())
				var status syscall.WaitStatus
				for !status.Stopped() {
					_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
					require.NoError(t, err)
					require.Equal(t, false, status.Exited(), "it ended before it stopped")
				}
				time.Sleep(timeout + timeout/4)
				require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
				require.NoError(t, cmd.Wait())
			})
		}
		return
	}
	ends := InProcess(2)
	stop := func() { // once rank 0 waits
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGSTOP))
		time.Sleep(timeout / 50) // what has expired is seen before the answer comes
	}
	waits := func(c *Comm) {
		for what := ""; what == ""; what, _ = c.Waiting() {
			time.Sleep(time.Millisecond)
		}
	}
	shared := func(worker int, timeout time.Duration) (*SharedWorker, *Comm) {
		h := NewSharedWorker(New(ends[worker], timeout), []int{0, 1}, doubled{})
		c := New(h.Transports()[0], timeout)
		c.Begin()
		return h, c
	}
	var failed error
	switch child {
	case "message":
		c := New(ends[0], timeout)
		go func() {
			waits(c)
			stop()
			_ = New(ends[1], 0).Send(Halo, []byte{1}, 0).Wait()
		}()
		failed = c.Receive(Halo, make([]byte, 1), 1).Wait()
	case "turn":
		_, c := shared(0, timeout)
		go func() {
			_, other := shared(1, 0)
			waits(c)
			stop()
			_ = other.Send(Halo, []byte{1}, 0).Wait()
		}()
		failed = c.Receive(Halo, make([]byte, 1), 1).Wait()
	case "end":
		h, c := shared(0, timeout)
		c.End()
		go func() {
			time.Sleep(timeout / 50) // rank 0 waits, and nothing goes or comes
			stop()
			other, end := shared(1, 0)
			end.End()
			_ = other.Close()
		}()
		failed = h.Close()
	}
	if failed != nil {
		t.Log(failed)
		os.Exit(1)
	}
	os.Exit(0) // while the other rank ends
}

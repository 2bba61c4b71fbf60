package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weft/comm/launch"
	"weft/internal/require"
)

// withSignals runs a test with a clock of its own, in which send sends a signal to who attends.
func withSignals(t *testing.T, test func(t *testing.T, send func(os.Signal))) {
	WatchSignals() // outside of the bubble, whose goroutines have to end
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		go attend(signals)
		defer close(signals)
		test(t, func(s os.Signal) {
			signals <- s
			synctest.Wait()
		})
	})
}

// TestOneRequest: signals within a second are one request, as GNU timeout sends two; a SIGINT that comes
// later asks for an end at once.
func TestOneRequest(t *testing.T) {
	withSignals(t, func(t *testing.T, send func(os.Signal)) {
		noticed, ended := 0, false
		ctx, stop := UntilSignal(t.Context(), func(os.Signal) { noticed++ }, func() {
			ended = true
			runtime.Goexit() // in place of the end of the process
		})
		defer stop()
		send(syscall.SIGINT)
		time.Sleep(999 * time.Millisecond)
		send(syscall.SIGINT)
		send(syscall.SIGTERM)
		if noticed != 1 || ended || !errors.Is(context.Cause(ctx), launch.ErrInterrupted) {
			t.Fatalf("two signals within a second: noticed %d times, ended %v, cause %v", noticed, ended,
				context.Cause(ctx))
		}
		time.Sleep(time.Millisecond)
		if send(syscall.SIGINT); !ended {
			t.Error("an interrupt a second later does not end the process")
		}
	})
}

// TestSignalWithinOtherWork: a signal during work within other work ends both, the inner one first. Once the
// inner one has ended, the other hears alone; a second signal is for the last words of either.
func TestSignalWithinOtherWork(t *testing.T) {
	withSignals(t, func(t *testing.T, send func(os.Signal)) {
		var heard []string
		recorder := func(name string) func(os.Signal) {
			return func(os.Signal) { heard = append(heard, name) }
		}
		later := func() {
			time.Sleep(SameRequest)
			send(syscall.SIGINT)
		}
		outer, stopOuter := UntilSignal(t.Context(), recorder("outer"), func() {
			recorder("outer's last")(nil)
			runtime.Goexit() // in place of the end of the process
		})
		defer stopOuter()
		_, stopOther := UntilSignal(outer, recorder("other"), nil)
		stopOther()
		inner, stopInner := UntilSignal(t.Context(), recorder("inner"), nil)
		later()
		for _, ctx := range []context.Context{inner, outer} {
			if !errors.Is(context.Cause(ctx), launch.ErrInterrupted) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
		}
		later()
		stopInner()
		if want := []string{"inner", "outer", "outer's last"}; !slices.Equal(heard, want) {
			t.Errorf("heard by %q, want %q", heard, want)
		}
	})
}

// TestSignalAtTheEnd: a signal that comes before work stops is told to who stops it, and while it is heard
// the work does not stop.
func TestSignalAtTheEnd(t *testing.T) {
	withSignals(t, func(t *testing.T, send func(os.Signal)) {
		ctx, stop := UntilSignal(t.Context(), func(os.Signal) {
			if interrupts.mu.TryLock() {
				t.Error("the work may stop while the signal is heard")
				interrupts.mu.Unlock()
			}
		}, nil)
		send(syscall.SIGQUIT)
		for range 2 {
			if err := Heard(ctx, stop); !errors.Is(err, launch.ErrInterrupted) {
				t.Errorf("the end of the work: %v", err)
			}
		}
		if err := Heard(UntilSignal(t.Context(), func(os.Signal) {}, nil)); err != nil {
			t.Error("interrupted without a signal")
		}
	})
}

func TestSignalCancels(t *testing.T) {
	for _, s := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGHUP, syscall.SIGQUIT,
	} {
		if signal.Ignored(s) { // as SIGHUP by nohup
			continue
		}
		time.Sleep(SameRequest + time.Second/10) // what comes sooner is the one before
		told := make(chan os.Signal, 1)
		ctx, stop := UntilSignal(t.Context(), func(s os.Signal) { told <- s }, nil)
		require.NoError(t, syscall.Kill(os.Getpid(), s))
		<-ctx.Done()
		if got := <-told; got != s || !errors.Is(context.Cause(ctx), launch.ErrInterrupted) {
			t.Errorf("%v: told %v, cause %v", s, got, context.Cause(ctx))
		}
		stop()
	}
}

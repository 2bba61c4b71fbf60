package metis

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"
)

// looks is how often watch looks at a process within the timeout.
const looks = 50

// watch returns an error once the process has been idle for the timeout, and nil when ctx or the process
// ends. It counts looks without activity, and reads no clock: while this process is stopped too, nothing is
// counted.
func watch(ctx context.Context, pid int, timeout time.Duration) error {
	tick := time.NewTicker(max(timeout/looks, 1))
	defer tick.Stop()
	last, idle := activity{}, 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := activityOf(pid)
		if err != nil {
			return nil // it has ended
		}
		idle++
		if now.busy(last) {
			idle = 0
		}
		last = now
		if idle == looks {
			return fmt.Errorf("process %d is %s and did nothing for %v", pid, now, timeout)
		}
	}
}

// activity is the state of a process.
type activity struct {
	state     byte   // the state of its first thread, which runs METIS: the letter that ps shows
	processor string // its processor time
}

// busy reports whether a process has used a processor since last, or waits for one, however long a busy
// machine lets it wait.
func (a activity) busy(last activity) bool { return a.state == 'R' || a.processor != last.processor }

func (a activity) String() string {
	if a.state == 'T' || a.state == 't' {
		return "stopped"
	}
	return fmt.Sprintf("waiting (state %c)", a.state)
}

func activityOf(pid int) (activity, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return activity{}, err
	}
	// proc_pid_stat(5): the number, the name in parentheses, the state. User and system time are eleven and
	// twelve fields later.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return activity{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return activity{fields[0][0], string(fields[11]) + " " + string(fields[12])}, nil
}

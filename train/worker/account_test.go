package worker

import (
	"testing"
	"time"
)

// TestTallySince: what a worker did in a pass is what it had done after it less what it had before, of each
// kind of traffic and each layer, bytes and messages.
func TestTallySince(t *testing.T) {
	before, after, want := Tally{Waited: time.Second}, Tally{Waited: 4 * time.Second}, Tally{Waited: 3 * time.Second}
	for k := range int64(len(before.Sent.kinds())) {
		*before.Sent.kinds()[k] = Traffic{Bytes: 10 + k, Messages: 1 + k}
		*after.Sent.kinds()[k] = Traffic{Bytes: 110 + 3*k, Messages: 21 + 4*k}
		*want.Sent.kinds()[k] = Traffic{Bytes: 100 + 2*k, Messages: 20 + 3*k}
	}
	got := after.since(before)
	if got.Sent != want.Sent || got.Waited != want.Waited {
		t.Errorf("%+v, want %+v", got, want)
	}
	sum := SumOf([]Communication{before.Sent, got.Sent, {}})
	if sum != after.Sent {
		t.Errorf("the sum is %+v, want %+v", sum, after.Sent)
	}
}

// TestSwitches: each all-to-all counts once, and its bytes for its layer.
func TestSwitches(t *testing.T) {
	a := newAccount()
	a.redistributed("layers.0", 100)
	a.redistributed("layers.1", 30)
	a.redistributed("layers.0", 7)
	if a.redistributions != 3 || a.layoutBytes["layers.0"] != 107 || a.layoutBytes["layers.1"] != 30 {
		t.Errorf("%d switches, %v", a.redistributions, a.layoutBytes)
	}
}

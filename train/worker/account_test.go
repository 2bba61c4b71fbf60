package worker

import (
	"reflect"
	"testing"
	"time"

	"weft/internal/assert"
)

// each is a Communication whose k-th kind has of(k), k = 0, 1, ….
func each(of func(k int64) Traffic) (c Communication) {
	kinds := reflect.ValueOf(&c).Elem()
	for k := range kinds.NumField() {
		kinds.Field(k).Set(reflect.ValueOf(of(int64(k))))
	}
	return c
}

// TestTallySince: what a worker did in a pass is what it had done after it less what it had before, of each
// kind of traffic and each layer, bytes and messages.
func TestTallySince(t *testing.T) {
	before := Tally{Waited: time.Second, Sent: each(func(k int64) Traffic {
		return Traffic{Bytes: 10 + k, Messages: 1 + k}
	})}
	after := Tally{Waited: 4 * time.Second, Sent: each(func(k int64) Traffic {
		return Traffic{Bytes: 110 + 3*k, Messages: 21 + 4*k}
	})}
	want := each(func(k int64) Traffic { return Traffic{Bytes: 100 + 2*k, Messages: 20 + 3*k} })
	if got := after.since(before); got.Sent != want || got.Waited != 3*time.Second {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSumOf: the sum over workers, and that of bytes, have all kinds.
func TestSumOf(t *testing.T) {
	a := each(func(k int64) Traffic { return Traffic{Bytes: 1 << k, Messages: 3 * k} })
	b := each(func(k int64) Traffic { return Traffic{Bytes: 100 << k, Messages: 1} })
	want := each(func(k int64) Traffic { return Traffic{Bytes: 101 << k, Messages: 3*k + 1} })
	assert.Equal(t, want, SumOf([]Communication{a, {}, b}), "the sum")
	assert.Equal(t, 1+2+4+8+16+32, a.Bytes(), "bytes")
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

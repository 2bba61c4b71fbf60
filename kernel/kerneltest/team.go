// Package kerneltest makes the teams on which tests of several packages compute: on the CPU, or on a card.
package kerneltest

import (
	"os"
	"sync"

	"weft/device"
	"weft/kernel"
	"weft/tensor"
)

// arena is the memory of a device that a test has, in bytes.
const arena = 384 << 20

// devices has the device of each Meter, which several teams may use.
var devices sync.Map

// test is the part of testing.TB that Team needs.
type test interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
	Error(args ...any)
}

// OnCard reports whether tests compute on a card: $WEFT_DEVICE is cuda.
func OnCard() bool { return os.Getenv("WEFT_DEVICE") == "cuda" }

// Team returns kernel.NewTeam or, if $WEFT_DEVICE is cuda, a team on card 0 until the test ends. memory must
// have no matrices yet, or belong to another such team.
func Team(t test, threads int, memory *tensor.Meter) *kernel.Team {
	t.Helper()
	if !OnCard() {
		return kernel.NewTeam(threads, memory)
	}
	if d, found := devices.Load(memory); found {
		return kernel.NewDeviceTeam(d.(*device.Device), threads, memory)
	}
	d, err := device.Open(0)
	if err == nil {
		err = memory.On(d, arena)
	}
	if err != nil {
		t.Fatal(err)
	}
	devices.Store(memory, d)
	t.Cleanup(func() {
		devices.Delete(memory)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return kernel.NewDeviceTeam(d, threads, memory)
}

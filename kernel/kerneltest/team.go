// Package kerneltest has what tests of several packages compute on.
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

// devices are those of Meters, which several teams may use.
var devices sync.Map

// test is what Team needs of a testing.TB.
type test interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
	Error(args ...any)
}

// OnCard reports whether tests compute on a card: $WEFT_DEVICE is cuda.
func OnCard() bool { return os.Getenv("WEFT_DEVICE") == "cuda" }

// Team is kernel.NewTeam, or where $WEFT_DEVICE is cuda a team on card 0, until the test ends. memory has no
// matrices yet, or is that of another such team.
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

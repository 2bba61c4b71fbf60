package setting

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/internal/refusal"
)

// Device is where workers compute: CPU, AutoDevice, AllCards, or cards by number, as in "cuda:0,2". The
// workers of a machine take the cards in order, the first worker the first card.
type Device string

// Devices: CPU, AllCards of a machine, and AutoDevice, which is one of the two.
const (
	CPU        Device = "cpu"
	AutoDevice Device = "auto"
	AllCards   Device = "cuda"
)

var devices = []string{string(CPU), string(AllCards), string(AutoDevice)}

// UnmarshalText implements encoding.TextUnmarshaler. Each number may have cuda: before it.
func (d *Device) UnmarshalText(text []byte) error {
	device := Device(strings.ReplaceAll(strings.ToLower(string(text)), ",cuda:", ","))
	cards, is := device.Cards()
	if device != CPU && device != AutoDevice && !is || slices.Contains(cards, -1) {
		return errors.New("must be cpu, cuda, cuda:N for card N from 0, cuda:N,M for several, or auto")
	}
	for k, number := range cards {
		if slices.Contains(cards[:k], number) {
			return fmt.Errorf("has card %d twice; name each card once", number)
		}
	}
	*d = device
	return nil
}

// Cards are the numbers of the cards, nil for all cards. are reports whether the device is cards. A number
// that cannot be read is −1.
func (d Device) Cards() (numbers []int, are bool) {
	list, listed := strings.CutPrefix(string(d), string(AllCards)+":")
	if !listed {
		return nil, d == AllCards
	}
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return []int{-1}, true
		}
		numbers = append(numbers, int(n))
	}
	return numbers, true
}

// IsCard reports whether the device is one or several cards.
func (d Device) IsCard() bool { _, are := d.Cards(); return are }

// LeaveCards makes the CPU compute, without the settings that only cards have.
func (o *Options) LeaveCards() {
	o.Device, o.DeviceMessages, o.HostMemoryLimit = CPU, false, 0
	if o.Offload == RAM {
		o.Offload = ""
	}
	if o.Precision == tf32x3 {
		o.Precision = f32
	}
}

// OnCard reports whether workers compute on a card.
func (o *Options) OnCard() bool { return o.Device.IsCard() }

// NoCard says why a card cannot compute what the options ask for; "": it can.
func (o *Options) NoCard() string {
	for _, other := range []struct {
		there     bool
		flag, why string
	}{
		{
			o.Decoupled && o.Uses("attention-dropout"), "--decoupled",
			"the CPU computes attention whose coefficients are kept",
		},
		{
			o.OffloadFolder() != "", "--offload " + o.Offload,
			"matrices of a card rest in the host's memory, by --offload " + RAM,
		},
	} {
		if other.there {
			return other.flag + ": " + other.why
		}
	}
	return ""
}

// RAM is the value of Offload for which matrices of a card rest in the host's memory.
const RAM = "ram"

// OffloadFolder is the folder where matrices rest; "": there is none.
func (o *Options) OffloadFolder() string {
	if o.Offload == RAM {
		return ""
	}
	return o.Offload
}

// CheckCard refuses options that ask for a card and for what a card cannot compute.
func (o *Options) CheckCard() error {
	if why := o.NoCard(); why != "" && o.OnCard() {
		return refusal.Errorf("--device %s with %s; take --device %s, or leave the other out", o.Device, why, CPU)
	}
	return nil
}

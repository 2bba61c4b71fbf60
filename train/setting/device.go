package setting

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"weft/internal/refusal"
	"weft/train/task"
)

// Device is where workers compute: CPU, AutoDevice, "cuda", or "cuda:N" for card N of the machine.
type Device string

// CPU and AutoDevice, a card if there is one, are Devices.
const (
	CPU        Device = "cpu"
	AutoDevice Device = "auto"
)

// FirstCard is the Device of card 0.
const FirstCard Device = "cuda"

var devices = []string{string(CPU), string(FirstCard), string(AutoDevice)}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Device) UnmarshalText(text []byte) error {
	of := Device(strings.ToLower(string(text)))
	number, is := of.Card()
	if of != CPU && of != AutoDevice && !is || number < 0 {
		return errors.New("must be cpu, cuda, cuda:N for card N from 0, or auto")
	}
	*d = of
	return nil
}

// Card is the number of the card; is says whether it is one. A number that cannot be read is −1.
func (d Device) Card() (number int, is bool) {
	text, numbered := strings.CutPrefix(string(d), string(FirstCard)+":")
	if !numbered {
		return 0, d == FirstCard
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return -1, true
	}
	return int(n), true
}

// IsCard reports whether it is a card.
func (d Device) IsCard() bool { _, is := d.Card(); return is }

// OnCard reports whether workers compute on a card.
func (o *Options) OnCard() bool { return o.Device.IsCard() }

// NoCard says why a card does not compute what the options ask for; "": it does.
func (o *Options) NoCard() string {
	for _, other := range []struct {
		there     bool
		flag, why string
	}{
		{o.Task == task.Link, "--task " + o.Task, "the CPU scores edges and draws negative ones"},
		{
			o.Decoupled && o.Uses("attention-gradient"), "--decoupled",
			"the CPU computes attention whose coefficients are kept",
		},
		{o.Parallel == Auto, "--parallel " + Auto, "it compares times of CPUs"},
		{o.HaloDelay > 0, fmt.Sprintf("--halo-delay %d", o.HaloDelay), "the CPU keeps late rows"},
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

// RAM is the Offload to the host's memory, from a card's.
const RAM = "ram"

// OffloadFolder is the folder where matrices rest; "": they rest in none.
func (o *Options) OffloadFolder() string {
	if o.Offload == RAM {
		return ""
	}
	return o.Offload
}

// CheckCard refuses options whose workers compute on a card that does not do what they ask for.
func (o *Options) CheckCard() error {
	if why := o.NoCard(); why != "" && o.OnCard() {
		return refusal.Errorf("--device %s with %s; take --device %s, or leave the other out", o.Device, why, CPU)
	}
	return nil
}

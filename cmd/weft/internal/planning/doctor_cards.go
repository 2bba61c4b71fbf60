package planning

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/device"
)

// cardsFinding is the cards that --device may name.
type cardsFinding struct {
	Cards    []cardFinding `json:"cards,omitempty"` // by number
	NotFound string        `json:"not_found,omitempty"`
}

// cardFinding is a card. Rates are of copies from and to the host's memory: not pinned, and pinned.
type cardFinding struct {
	Name       string  `json:"name"`
	Driver     string  `json:"driver"` // the driver's version of CUDA
	Total      int64   `json:"total_bytes"`
	Free       int64   `json:"free_bytes"`
	ToDevice   float64 `json:"to_device_bytes_per_second"`
	ToHost     float64 `json:"to_host_bytes_per_second"`
	PinnedTo   float64 `json:"pinned_to_device_bytes_per_second"`
	PinnedFrom float64 `json:"pinned_to_host_bytes_per_second"`
	Capability string  `json:"capability"`
}

func findCards() (f cardsFinding) {
	for {
		card, err := findCard(len(f.Cards))
		if err != nil {
			if f.Cards == nil {
				f.NotFound = err.Error()
			}
			return f
		}
		f.Cards = append(f.Cards, card)
	}
}

func findCard(number int) (f cardFinding, err error) {
	d, err := device.Open(number)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	major, minor := d.Capability()
	f = cardFinding{Name: d.Name(), Driver: d.Driver(), Capability: fmt.Sprintf("%d.%d", major, minor)}
	if f.Free, f.Total, err = d.Memory(); err != nil {
		return f, err
	}
	const bytes = 64 << 20
	at, err := d.Alloc(bytes)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, d.Free(at)) }()
	here := make([]byte, bytes)
	pinned, err := d.Pinned(bytes)
	if err != nil {
		return f, err
	}
	done := func(mark uint64, err error) error { return errors.Join(err, d.Wait(mark)) }
	for _, c := range []struct {
		rate *float64
		copy func() error
	}{
		{&f.ToDevice, func() error { return errors.Join(d.ToDevice(at, here), d.Sync()) }},
		{&f.ToHost, func() error { return d.ToHost(here, at) }},
		{&f.PinnedTo, func() error { return done(d.Up(at, pinned, 0)) }},
		{&f.PinnedFrom, func() error { return done(d.Down(pinned, at, 0)) }},
	} {
		for range 3 { // the first time may find pages that are not there yet
			start := time.Now()
			if err := c.copy(); err != nil {
				return f, err
			}
			*c.rate = max(*c.rate, bytes/time.Since(start).Seconds())
		}
	}
	return f, nil
}

func (f cardsFinding) describe() (found, advice string) {
	if f.Cards == nil {
		return "none: " + f.NotFound, ""
	}
	c, n := f.Cards[0], len(f.Cards)
	rate := func(perSecond float64) string { return ui.Megabytes(int64(perSecond)) + "/s" }
	found = fmt.Sprintf("%s, %s, CUDA %s; %s to it, %s back, of pinned memory %s and %s%s", c.Name,
		ui.Megabytes(c.Total), c.Driver, rate(c.ToDevice), rate(c.ToHost), rate(c.PinnedTo),
		rate(c.PinnedFrom), ui.When(n > 1, fmt.Sprintf("; %d more", n-1)))
	several := fmt.Sprintf("weft train --device cuda --parallel graph=%d computes on all", n)
	return found, cmp.Or(ui.When(n > 1, several), "weft train --device cuda computes on it")
}

package train

import (
	"errors"
	"fmt"
	"strings"

	"weft/comm"
	"weft/device"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/worker"
)

// spared is how much of a card's free memory is left to others where there is no memory limit, in bytes.
const spared = 512 << 20

// findCard returns the card that the options name, of whose memory so many workers have equal parts; nil: the
// CPU computes.
func findCard(o *setting.Options, workers int) (*worker.Card, error) {
	if !o.OnCard() {
		return nil, nil
	}
	number, _ := o.Device.Card()
	d, err := device.Open(number)
	if err != nil {
		return nil, err
	}
	free, _, err := d.Memory()
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	return CardOf(o, d.Name(), d.Driver(), free, workers), nil
}

// CardOf is a card with so much free memory, of which so many workers have equal parts.
func CardOf(o *setting.Options, name, driver string, free int64, workers int) *worker.Card {
	limit := max(free-spared, free/2)
	if o.MemoryLimit > 0 {
		limit = int64(o.MemoryLimit)
	}
	return &worker.Card{Device: o.Device, Name: name, Driver: driver, Bytes: limit / int64(workers)}
}

// AboutDevice puts the setting before an error of a card; nil stays none.
func AboutDevice(of setting.Device, err error) error {
	if err == nil {
		return nil
	}
	number, _ := of.Card()
	text := strings.TrimPrefix(err.Error(), fmt.Sprintf("cuda:%d: ", number))
	if refusal.Is(err) {
		return refusal.Errorf("--device %s: %s, or take --device %s", of, text, setting.CPU)
	}
	return fmt.Errorf("--device %s: %s", of, text)
}

// ChooseDevice decides --device auto: the first card, if there is one and it computes what the options ask
// for, or else the CPU, and why.
func ChooseDevice(o setting.Options) (d setting.Device, why string) {
	if why = o.NoCard(); why != "" {
		return setting.CPU, why
	}
	o.Device = setting.FirstCard
	card, err := findCard(&o, 1)
	if err != nil {
		return setting.CPU, err.Error()
	}
	return o.Device, card.Name
}

// seat is where a worker computes.
type seat struct {
	memory *tensor.Meter
	card   *device.Device // nil: the CPU
}

// seats makes those of so many workers. end gives their memory back.
func (s *shared) seats(n int) (seats []*seat, end func() error, err error) {
	end = func() (failed error) {
		for _, at := range seats {
			failed = errors.Join(failed, AboutDevice(s.Device, at.close()))
		}
		return failed
	}
	for range n {
		at := &seat{memory: tensor.NewMeter()}
		if seats = append(seats, at); s.Card == nil {
			continue
		}
		number, _ := s.Device.Card()
		d, err := device.Open(number)
		if err != nil {
			return seats, end, AboutDevice(s.Device, err)
		}
		at.card = d
		if err := at.memory.On(at.card, s.Card.Bytes); err != nil {
			return seats, end, AboutDevice(s.Device, err)
		}
	}
	return seats, end, nil
}

// CheckMessages refuses --device-messages where a Comm does not send from the memory of cards.
func CheckMessages(c *comm.Comm) error {
	t := c.Device()
	if t == nil {
		return refusal.Errorf("--device-messages: only MPI sends from the memory of cards: start the workers with " +
			"mpirun, or leave it out")
	}
	if err := t.TakesDevice(); err != nil {
		return refusal.Errorf("--device-messages: %w, or leave it out", err)
	}
	return nil
}

// close gives the memory back.
func (at *seat) close() error {
	at.memory.Close()
	if at.card == nil {
		return nil
	}
	return at.card.Close()
}

// team makes a team there.
func (at *seat) team(threads int) *kernel.Team {
	if at.card != nil {
		return kernel.NewDeviceTeam(at.card, threads, at.memory)
	}
	return kernel.NewTeam(threads, at.memory)
}

package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/comm"
	"weft/comm/launch"
	"weft/device"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/worker"
)

// spared is how much of a card's free memory is left to others where there is no memory limit, in bytes.
const spared = 512 << 20

// found is the card of a worker.
type found struct {
	Number           int
	ID, Name, Driver string
	Bytes, Free      int64 // of its memory, for all workers on it: that may be used, and that are free
}

// findCards returns the cards that the settings name, for the workers of these processes; nil: the CPU
// computes. localRank is as in Job. All processes call it together.
func findCards(r *setting.Resolved, ranks launch.Ranks, localRank int) (c *worker.Cards, err error) {
	if !r.OnCard() {
		return nil, nil
	}
	if cards, _ := r.Device.Cards(); len(cards) > r.Workers {
		return nil, refusal.Errorf("--device %s: %d cards, and each worker takes one; name no more than workers, "+
			"or train with --parallel graph=%[2]d", r.Device, len(cards))
	}
	here := r.Workers
	if ranks.Comm.Size() > 1 {
		here = 1
	}
	var devices []*device.Device
	err = ranks.Each(func() (err error) { // kernels may have to be compiled
		devices, err = OpenCards(r.Device, localRank, here)
		return AboutDevice(r.Device, err)
	})
	var failed error
	var own []found
	for _, d := range devices { // each takes memory of the card, and all are open now
		free, _, err := d.Memory()
		failed = cmp.Or(failed, err, d.Close())
		own = append(own, found{d.Number(), d.ID(), d.Name(), d.Driver(), allowed(&r.Options, free), free})
	}
	if err == nil {
		err = ranks.Together(AboutDevice(r.Device, failed))
	}
	if err != nil {
		return nil, err
	}
	all, err := worker.ToFirst(ranks.Comm, own)
	if err != nil {
		return nil, err
	}
	if ranks.First() {
		c = mergeCards(r.Device, slices.Concat(all...))
	}
	return worker.FromFirst(ranks.Comm, c)
}

// OpenCards opens the cards of so many workers of this machine, from the first on.
func OpenCards(dev setting.Device, first, workers int) (devices []*device.Device, err error) {
	listed, _ := dev.Cards()
	numbers, err := device.Numbers(listed)
	for k := 0; k < workers && err == nil; k++ {
		var d *device.Device
		if d, err = device.Open(numbers[(first+k)%len(numbers)]); err == nil {
			devices = append(devices, d)
		}
	}
	return devices, err
}

// allowed is how many bytes workers may take of so much free memory of a card.
func allowed(o *setting.Options, free int64) int64 {
	return min(cmp.Or(int64(o.MemoryLimit), max(free-spared, free/2)), free)
}

// CardOf describes a card with free bytes of memory, which so many workers divide equally.
func CardOf(o *setting.Options, name, driver string, free int64, workers int) *worker.Cards {
	return &worker.Cards{
		Device: o.Device, Name: name, Driver: driver,
		Bytes: allowed(o, free) / int64(workers), Free: free / int64(workers),
	}
}

// mergeCards joins the cards that all workers found, by worker. All workers get equally much memory: the
// least that one of them may have.
func mergeCards(dev setting.Device, all []found) *worker.Cards {
	c := &worker.Cards{Device: dev, Driver: all[0].Driver, Bytes: math.MaxInt64, Free: math.MaxInt64}
	sharers := map[string]int64{}
	var names []string
	for _, w := range all {
		sharers[w.ID]++
		if !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	for _, w := range all {
		c.Bytes, c.Free = min(c.Bytes, w.Bytes/sharers[w.ID]), min(c.Free, w.Free/sharers[w.ID])
		c.Numbers = append(c.Numbers, w.Number)
	}
	c.Name = strings.Join(names, ", ")
	return c
}

// AboutDevice prefixes an error of a card with the setting that named the card. A nil error stays nil.
func AboutDevice(dev setting.Device, err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), string(dev)+": ")
	if refusal.Is(err) {
		return refusal.Errorf("--device %s: %s, or take --device %s", dev, text, setting.CPU)
	}
	return fmt.Errorf("--device %s: %s", dev, text)
}

// ChooseDevice decides --device auto, and says why: cards, if there is one and it computes what the options
// ask for, or else the CPU.
func ChooseDevice(o setting.Options) (d setting.Device, why string) {
	if why = o.NoCard(); why != "" {
		return setting.CPU, why
	}
	devices, err := OpenCards(setting.AllCards, 0, 1)
	if err == nil {
		why, err = devices[0].Name(), devices[0].Close()
	}
	if err != nil {
		return setting.CPU, err.Error()
	}
	return setting.AllCards, why
}

// seat is where a worker computes.
type seat struct {
	memory *tensor.Meter
	shared bool           // the memory is that of a PassMemory
	card   *device.Device // nil: the CPU
}

// seats makes the seats of n workers, from worker number first on. end gives their memory back.
func (s *session) seats(first, n int) (seats []*seat, end func() error, err error) {
	end = func() (failed error) {
		for _, at := range seats {
			failed = errors.Join(failed, AboutDevice(s.Device, at.close()))
		}
		return failed
	}
	for k := range n {
		at := &seat{}
		if m := s.passMemory(); m != nil {
			at.memory, at.shared = m.meter(k), true
		} else {
			at.memory = tensor.NewMeter()
		}
		if seats = append(seats, at); s.Cards == nil {
			continue
		}
		if at.card, err = device.Open(s.Cards.Numbers[first+k]); err == nil {
			err = at.memory.On(at.card, s.Cards.Bytes)
		}
		if err != nil {
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
	if at.shared {
		at.memory.Retire()
		return nil
	}
	at.memory.Close()
	if at.card == nil {
		return nil
	}
	return at.card.Close()
}

// settle waits until the card has done its work, and takes the error of what failed since the last wait. That
// error is reported already. It must not seem to belong to the work that comes next.
func (at *seat) settle() {
	if at.card != nil {
		_ = at.card.Sync()
	}
}

// sibling is a second place with memory of its own: on a card, in the same part of the card's memory.
func (at *seat) sibling() *seat {
	if at.card == nil {
		return &seat{memory: tensor.NewMeter()}
	}
	return &seat{memory: at.memory.Another(), card: at.card}
}

// team makes a team that computes there.
func (at *seat) team(threads int) *kernel.Team {
	if at.card != nil {
		return kernel.NewDeviceTeam(at.card, threads, at.memory)
	}
	return kernel.NewTeam(threads, at.memory)
}

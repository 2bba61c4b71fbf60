package machine

import (
	"errors"
	"math"
	"time"

	"weft/kernel"
	"weft/tensor"
)

// MeasureCard measures the rates of a card, by copies of size bytes and products of matrices of that size.
// Its memory is given back when the card is closed. A copy's rate counts for reading and for writing, and
// gathered rows count as bytes in order.
func MeasureCard(card kernel.Device, size int) (r Rates, err error) {
	memory := tensor.NewMeter()
	defer memory.Close()
	defer func() {
		if p := recover(); p != nil {
			switch failure := p.(type) {
			case tensor.DeviceFailure:
				err = failure
			case tensor.OutOfMemory:
				err = failure
			default:
				panic(p)
			}
		}
	}()
	to, err := card.Alloc(int64(size))
	if err != nil {
		return r, err
	}
	from, err := card.Alloc(int64(size))
	if err == nil {
		err = memory.On(card, int64(4*size)+1<<20) // three matrices, and scratch of products
	}
	if err != nil {
		return r, err
	}
	rate := func(amount float64, work func() error) (best float64) {
		for range samples {
			start := time.Now()
			err = errors.Join(err, work(), card.Sync())
			best = max(best, amount/time.Since(start).Seconds())
		}
		return best
	}
	const times = 8 // so many that a launch counts little
	copied := rate(2*times*float64(size), func() (err error) {
		for range times {
			err = errors.Join(err, card.Copy(to, from, int64(size)))
		}
		return err
	})
	r.Threads, r.Read, r.Write, r.Gather, r.Lines = 1, copied, copied, copied, copied
	n := int(math.Sqrt(float64(size)/4)) &^ 63
	team, w := kernel.NewDeviceTeam(card, 1, memory), memory.New(tensor.Buffers, n, n)
	defer w.Release()
	team.Fill(w, 1)
	for e, flops := range map[tensor.Element]*float64{
		tensor.Float32: &r.Flops, tensor.BFloat16: &r.BFloat16Flops,
	} {
		x, z := memory.NewElement(tensor.Buffers, e, n, n), memory.NewElement(tensor.Buffers, e, n, n)
		team.Fill(x, 1)
		*flops = rate(2*math.Pow(float64(n), 3), func() error {
			team.MatMul(z, x, w, kernel.Straight, kernel.Replace)
			return nil
		})
		x.Release()
		z.Release()
	}
	return r, err
}

package turns

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"

	"weft/comm"
	"weft/internal/require"
	"weft/tensor"
)

// shelf is a Disk in Go's memory, which refuses to read once it is torn down.
type shelf struct {
	mu     sync.Mutex
	stored map[int64][]byte // by their offset
	torn   bool
}

var errTorn = errors.New("the shelf is torn down")

func newShelf() *shelf { return &shelf{stored: map[int64][]byte{}} }

func (s *shelf) Write(data []byte, offset int64) ([]uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[offset] = bytes.Clone(data)
	return []uint32{crc32.ChecksumIEEE(data)}, nil
}

func (s *shelf) Read(into []byte, offset int64, sums []uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.torn {
		return errTorn
	}
	if copy(into, s.stored[offset]) != len(into) || crc32.ChecksumIEEE(into) != sums[0] {
		return fmt.Errorf("%d bytes at %d are others than were written", len(into), offset)
	}
	return nil
}

// unit is the size of a message that rests, whole pages.
const unit = 2 * tensor.LeastResting

// spools are all settings, with what a message of a unit to or from another worker moves to and from a disk.
var spools = map[string]struct {
	make  func(*tensor.Meter) *Spool
	moves int64
}{
	"memory": {func(m *tensor.Meter) *Spool { return &Spool{Memory: m} }, 0},
	"reserved memory": {func(m *tensor.Meter) *Spool {
		m.Offload(newShelf(), 16*unit)
		return &Spool{Memory: m, Reserve: Reserve{Bytes: 4 * unit}, Messages: m.Split(nil, 4*unit)}
	}, 0},
	"a disk": {func(m *tensor.Meter) *Spool {
		m.Offload(newShelf(), 16*unit)
		return &Spool{
			Memory: m, Reserve: Reserve{Bytes: 4 * unit, Rests: true},
			Messages: m.Split(newShelf(), 4*unit),
		}
	}, unit},
	"a plan of a disk": {func(m *tensor.Meter) *Spool {
		m.Plan()
		m.Offload(nil, 16*unit)
		return &Spool{Memory: m, Reserve: Reserve{Bytes: 4 * unit, Rests: true}, Plan: true}
	}, unit},
}

// message returns so many bytes.
func message(n int) []byte {
	m := make([]byte, n)
	for i := range m {
		m[i] = byte(i * 7)
	}
	return m
}

// TestSpool: each message comes back as it was put, by whatever path it goes and wherever it waits, takes the
// memory that Takes says, and gives it back. What is dropped does, too. In a plan none comes from other
// workers.
func TestSpool(t *testing.T) {
	for name, spool := range spools {
		for _, kind := range []comm.Kind{
			comm.Links,
			comm.Gradient, comm.Stage,
		} {
			for _, path := range []comm.Path{comm.Within, comm.Outgoing, comm.Incoming} {
				for _, n := range []int{1, tensor.LeastResting - 1, unit} {
					t.Run(fmt.Sprintf("%s/%v/%d/%d bytes", name, kind, path, n), func(t *testing.T) {
						memory := tensor.NewMeter()
						defer memory.Close()
						s := spool.make(memory)
						holds := memory
						if path != comm.Within && s.Messages != nil {
							holds = s.Messages
							defer holds.Close()
						}
						data := message(n)
						for _, taken := range []bool{true, false} {
							m, err := s.Put(kind, data, path)
							require.NoError(t, err)
							clear(data) // the message is a copy
							if m.Len() != n {
								t.Errorf("%d bytes, want %d", m.Len(), n)
							}
							memory, rests := s.Takes(kind, n)
							onPlan := s.Plan && path != comm.Within
							if live := holds.LiveTensors(); !rests && !onPlan && live != memory {
								t.Errorf("%d bytes of memory, want %d", live, memory)
							}
							m.Ahead()
							if into := make([]byte, n); !taken {
								m.Drop()
							} else if err := m.Take(into); err != nil {
								t.Error(err)
							} else if !s.Plan && !bytes.Equal(into, message(n)) {
								t.Error("other bytes than were put")
							} else if onPlan && !bytes.Equal(into, make([]byte, n)) {
								t.Error("a plan's memory is written")
							}
							if live := holds.LiveTensors(); live != 0 {
								t.Errorf("%d bytes of memory are left", live)
							}
							data = message(n)
						}
					})
				}
			}
		}
	}
}

// TestSpoolCounts: between workers a message that rests is written and read once, in the turn of its sender
// where it leaves and of its receiver where it comes, in a run as in its plan. A smaller one is not,
// nor is one of a kind that is not in metered memory.
func TestSpoolCounts(t *testing.T) {
	const small = tensor.LeastResting / 4
	for name, spool := range spools {
		for _, c := range []struct {
			kind  comm.Kind
			bytes int
			want  int64
		}{
			{comm.Links, unit, spool.moves},
			{comm.Links, small, 0},
			{comm.Gradient, unit, 0},
		} {
			for _, path := range []comm.Path{comm.Outgoing, comm.Incoming} {
				memory := tensor.NewMeter()
				s := spool.make(memory)
				m, err := s.Put(c.kind, message(c.bytes), path)
				require.NoError(t, err)
				sent := tensor.Moved{}
				if s.Messages != nil || s.Plan {
					sent = memory.OnDisk()
				}
				require.NoError(t, m.Take(make([]byte, c.bytes)))
				moved := sent
				if s.Messages != nil || s.Plan {
					moved = memory.OnDisk()
				}
				want := tensor.Moved{Written: c.want, Read: c.want}
				if moved != want {
					t.Errorf("%s, %v of %d bytes, path %d: %+v, want %+v", name, c.kind,
						c.bytes, path, moved, want)
				}
				if path == comm.Incoming {
					want = tensor.Moved{}
				}
				if sent != want {
					t.Errorf("%s, %v of %d bytes, path %d: %+v before it is taken, want %+v", name, c.kind,
						c.bytes, path, sent, want)
				}
				if s.Messages != nil {
					s.Messages.Close()
				}
				memory.Close()
			}
		}
	}
}

// TestSpoolFails: a disk that fails is an error of the message, and no panic.
func TestSpoolFails(t *testing.T) {
	memory, disk := tensor.NewMeter(), newShelf()
	defer memory.Close()
	memory.Offload(newShelf(), 16*unit)
	s := &Spool{
		Memory: memory, Reserve: Reserve{Bytes: 4 * unit, Rests: true},
		Messages: memory.Split(disk, 4*unit),
	}
	defer s.Messages.Close()
	m, err := s.Put(comm.Links, message(unit), comm.Outgoing)
	require.NoError(t, err)
	disk.mu.Lock()
	disk.torn = true
	disk.mu.Unlock()
	if err := m.Take(make([]byte, unit)); !errors.Is(err, errTorn) {
		t.Errorf("%v, want %v", err, errTorn)
	}
}

package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"weft/tensor"
	"weft/train/worker"
)

// place is where a rank runs.
type place struct {
	Machine string
	Memory  string      // the same for processes that may be able to open each other's memory
	Path    string      // of some, by which they try it
	Cores   unix.CPUSet // that the rank may use
}

func ownPlace(memory *tensor.Common) (p place) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // the same in all containers of a machine
	host, _ := os.Hostname()
	p.Machine = cmp.Or(string(boot), host)
	processes, _ := os.Readlink("/proc/self/ns/pid") // those that it can see
	p.Memory, p.Path = fmt.Sprint(p.Machine, processes, os.Geteuid()), memory.Path()
	// as where the machine has more cores than the set has room for
	if unix.SchedGetaffinity(0, &p.Cores) != nil {
		for i := range p.Cores {
			p.Cores[i] = ^p.Cores[i]
		}
	}
	return p
}

// shares reports whether two ranks compete for a core. A launcher may bind each rank of a machine to cores of
// its own.
func (p *place) shares(other *place) bool {
	for i, cores := range p.Cores {
		if p.Machine == other.Machine && cores&other.Cores[i] != 0 {
			return true
		}
	}
	return false
}

// neighbours are, by rank, the number of ranks, with it, that compete for the cores that it may use, and the
// lowest rank whose memory it can open. A container or the system may forbid to open another's.
type neighbours struct{ Sharers, Machines []int }

// Neighbours are those of all ranks, which call it together.
func (r Ranks) Neighbours() (n neighbours, err error) {
	memory := tensor.NewCommon()
	defer memory.Close() // when all have tried to open it
	places, err := worker.ToFirst(r.Comm, ownPlace(memory))
	if err != nil {
		return n, err
	}
	var tries []string
	for _, p := range places {
		sharers := 0
		for other := range places {
			if p.shares(&places[other]) {
				sharers++
			}
		}
		n.Sharers = append(n.Sharers, sharers)
		lowest := slices.IndexFunc(places, func(other place) bool { return other.Memory == p.Memory })
		n.Machines, tries = append(n.Machines, lowest), append(tries, places[lowest].Path)
	}
	if tries, err = worker.FromFirst(r.Comm, tries); err != nil {
		return n, err
	}
	opened, err := tensor.OpenCommon(tries[r.Rank()])
	if err == nil {
		opened.Close()
	}
	open, err := worker.ToFirst(r.Comm, err == nil)
	if err != nil {
		return n, err
	}
	for rank, can := range open {
		if !can {
			n.Machines[rank] = rank
		}
	}
	return worker.FromFirst(r.Comm, n)
}

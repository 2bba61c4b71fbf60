package main

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"weft/train/worker"
)

// place is where a rank runs.
type place struct {
	Machine string
	Cores   unix.CPUSet // that the rank may use
}

func ownPlace() (p place) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // the same in all containers of a machine
	host, _ := os.Hostname()
	p.Machine = cmp.Or(string(boot), host)
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

// sharers is the number of ranks, with this one, that compete for the cores that this rank may use.
func (r ranks) sharers() (int, error) {
	places, err := worker.ToFirst(r.Comm, ownPlace())
	if err != nil {
		return 0, err
	}
	numbers := make([]int, len(places))
	for k := range places {
		for other := range places {
			if places[k].shares(&places[other]) {
				numbers[k]++
			}
		}
	}
	if numbers, err = worker.FromFirst(r.Comm, numbers); err != nil {
		return 0, err
	}
	return numbers[r.Rank()], nil
}

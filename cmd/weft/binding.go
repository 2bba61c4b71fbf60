package main

import (
	"cmp"
	"crypto/sha256"
	"os"

	"golang.org/x/sys/unix"

	"weft/comm"
)

// place is where a rank runs: the machine, by a hash of what names it, and the cores that the rank may use, a bit for each.
type place struct {
	machine [sha256.Size / 8]int64
	cores   [len(unix.CPUSet{})]int64
}

func ownPlace() (p place) {
	name, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // the same in all containers of a machine
	host, _ := os.Hostname()
	hash := sha256.Sum256([]byte(cmp.Or(string(name), host)))
	copy(comm.Bytes(p.machine[:]), hash[:])
	var set unix.CPUSet
	unbound := unix.SchedGetaffinity(0, &set) != nil // as where the machine has more cores than the set has room for
	for i, bits := range set {
		p.cores[i] = int64(bits)
		if unbound {
			p.cores[i] = -1
		}
	}
	return p
}

// shares reports whether two ranks compete for a core. A launcher may bind each rank of a machine to cores of its own.
func (p *place) shares(other *place) bool {
	if p.machine != other.machine {
		return false
	}
	for i, bits := range p.cores {
		if bits&other.cores[i] != 0 {
			return true
		}
	}
	return false
}

// sharers is how many ranks, this one included, compete for the cores that this one may use.
func (r ranks) sharers() (n int, err error) {
	mine, all := ownPlace(), make([]place, r.Comm.Size())
	for _, part := range []func(*place) []int64{
		func(p *place) []int64 { return p.machine[:] },
		func(p *place) []int64 { return p.cores[:] },
	} {
		parts := make([][]byte, len(all))
		for k := range all {
			parts[k] = comm.Bytes(part(&all[k]))
		}
		if err := r.Comm.AllGather(comm.Setup, comm.Bytes(part(&mine)), parts); err != nil {
			return 0, err
		}
	}
	for k := range all {
		if mine.shares(&all[k]) {
			n++
		}
	}
	return n, nil
}

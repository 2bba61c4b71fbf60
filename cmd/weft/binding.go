package main

import (
	"cmp"
	"crypto/sha256"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"weft/comm"
)

// place is where a rank runs: the machine, by a hash of its names, and the cores that the rank may use, a bit
// for each.
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
	// As where the machine has more cores than the set has room for
	unbound := unix.SchedGetaffinity(0, &set) != nil
	for i, bits := range set {
		p.cores[i] = int64(bits)
		if unbound {
			p.cores[i] = -1
		}
	}
	return p
}

// shares reports whether two ranks compete for a core. A launcher may bind each rank of a machine to cores of
// its own.
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

// sharers is the number of ranks, with this one, that compete for the cores that this rank may use.
func (r ranks) sharers() (n int, err error) {
	mine := ownPlace()
	places, err := comm.ToFirst(r.Comm, slices.Concat(mine.machine[:], mine.cores[:]))
	if err != nil {
		return 0, err
	}
	of, numbers := make([]place, len(places)), make([]int64, len(places))
	for k, theirs := range places {
		copy(of[k].cores[:], theirs[copy(of[k].machine[:], theirs):])
	}
	for k := range of {
		for other := range of {
			if of[k].shares(&of[other]) {
				numbers[k]++
			}
		}
	}
	number, send, receive := []int64{0}, make([][]byte, r.Comm.Size()), make([][]byte, r.Comm.Size())
	for k := range numbers {
		send[k] = comm.Bytes(numbers[k : k+1])
	}
	receive[0] = comm.Bytes(number)
	err = r.Comm.AllToAll(comm.Setup, send, receive)
	return int(number[0]), err
}

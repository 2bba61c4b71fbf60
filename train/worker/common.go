package worker

import (
	"weft/comm"
	"weft/tensor"
)

// machine is the number of a worker's machine, as far as is known.
func (c *Config) machine(worker int) int {
	switch {
	case len(c.Machines) > 0:
		return c.Machines[worker]
	case c.Processes:
		return worker
	}
	return 0
}

// shareEdges has the workers of a machine that slice this worker's partition share its edges, if the settings
// allow it. The first of them makes the memory, and the others open it.
func (w *member) shareEdges() error {
	if !w.SharesEdges() {
		return nil
	}
	g := &w.Groups
	holders, first := w.Holders(), g.Group*g.Mesh.Workers() // the first rank of the group
	var near []int                                          // ranks in Slices
	for slice := range g.Mesh.Slices {
		at := g.Coords
		at.Slice = slice
		if w.machine(holders[first+g.Mesh.Rank(at)]) == w.machine(holders[g.All.Rank()]) {
			near = append(near, slice)
		}
	}
	common := g.Slices.Group(near...)
	mem := w.Team.Memory
	if len(near) == 1 {
		return nil
	}
	g.Common = common
	others := common.Rank() > 0
	if mem.Shares() { // the same workers share it for another graph
		return nil
	}
	var memory *tensor.Common
	var err error
	w.Team.Serial(func() {
		var path []byte
		if !others {
			memory = tensor.NewCommon()
			path = []byte(memory.Path())
		}
		if path, err = comm.FromFirst(common, path); err == nil && others {
			memory, err = tensor.OpenCommon(string(path))
		}
	})
	if err == nil {
		mem.Share(memory, others)
	} else if memory != nil {
		memory.Close()
	}
	return err
}

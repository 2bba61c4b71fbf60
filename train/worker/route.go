package worker

import (
	"slices"

	"weft/comm"
)

// route is how rows of vertices or edges come to the process that asks for them.
type route struct {
	asks  [][]int32 // by process: the places, in the list of rows, of those that the process has
	gives [][]int32 // by process: the rows of this process for which the other asks
}

// ownersOf says, by vertex of a type, which process has its row.
func (c *callerRows) ownersOf(kind int) ([]int32, error) {
	if owners := c.owners[kind]; owners != nil {
		return owners, nil
	}
	all, err := comm.GatherLists(c.Groups.World, comm.Setup, idsOf(c.Rows(kind), c.RowCount(kind)))
	if err != nil {
		return nil, err
	}
	owners := make([]int32, c.Share.Whole.Types[kind].Vertices)
	for process, ids := range all {
		for _, v := range ids {
			owners[v] = int32(process)
		}
	}
	c.owners[kind] = owners
	return owners, nil
}

// routeOf is the route of the rows of listed vertices. All processes call it together, each with its own
// list.
func (c *callerRows) routeOf(kind int, vertices []int32) (*route, error) {
	owners, err := c.ownersOf(kind)
	if err != nil {
		return nil, err
	}
	owned := idsOf(c.Rows(kind), c.RowCount(kind))
	return routeTo(c.Groups.World, vertices, owned, func(k int) int32 { return owners[vertices[k]] })
}

// routeTo is the route of listed vertices or edges. owned are those of this process, ascending. owner gives
// the process that has the row at a place in the list.
func routeTo[T int32 | int64](world *comm.Comm, listed, owned []T, owner func(k int) int32) (*route, error) {
	r := &route{make([][]int32, world.Size()), make([][]int32, world.Size())}
	wanted, counts := make([][]T, world.Size()), make([]int64, world.Size())
	for k, number := range listed {
		process := owner(k)
		r.asks[process], wanted[process] = append(r.asks[process], int32(k)), append(wanted[process], number)
		counts[process]++
	}
	all, err := comm.Gather(world, comm.Setup, counts...)
	if err != nil {
		return nil, err
	}
	asked := make([][]T, world.Size())
	for process := range asked {
		asked[process] = make([]T, all[process*world.Size()+world.Rank()])
	}
	if err := comm.AllToAllOf(world, comm.Setup, wanted, asked); err != nil {
		return nil, err
	}
	for process, numbers := range asked {
		for _, number := range numbers {
			row, _ := slices.BinarySearch(owned, number)
			r.gives[process] = append(r.gives[process], int32(row))
		}
	}
	return r, nil
}

// FetchRows copies the rows of listed vertices from the processes that have them. owned are this process's
// rows. All processes call it together, each with its own list.
func (c *callerRows) FetchRows(kind, columns int, vertices []int32, owned, fetched []float32) error {
	r, err := c.routeOf(kind, vertices)
	if err != nil {
		return err
	}
	return r.fetch(c.Groups.World, columns, owned, fetched)
}

// ReturnRows adds the gradients of rows that FetchRows has fetched to the rows' gradients in the processes
// that have them, in the order of the processes and of their lists.
func (c *callerRows) ReturnRows(kind, columns int, vertices []int32, owned, fetched []float32) error {
	r, err := c.routeOf(kind, vertices)
	if err != nil {
		return err
	}
	return r.scatterAdd(c.Groups.World, columns, fetched, owned)
}

// fetch copies the listed rows from each process.
func (r *route) fetch(world *comm.Comm, columns int, owned, fetched []float32) error {
	sent, came := make([][]float32, len(r.gives)), make([][]float32, len(r.asks))
	for process, rows := range r.gives {
		for _, row := range rows {
			sent[process] = append(sent[process], owned[int(row)*columns:][:columns]...)
		}
		came[process] = make([]float32, len(r.asks[process])*columns)
	}
	if err := comm.AllToAllOf(world, comm.Links, sent, came); err != nil {
		return err
	}
	for process, places := range r.asks {
		for k, place := range places {
			copy(fetched[int(place)*columns:][:columns], came[process][k*columns:])
		}
	}
	return nil
}

// scatterAdd adds the listed rows to each process's own.
func (r *route) scatterAdd(world *comm.Comm, columns int, fetched, owned []float32) error {
	sent, came := make([][]float32, len(r.asks)), make([][]float32, len(r.gives))
	for process, places := range r.asks {
		for _, place := range places {
			sent[process] = append(sent[process], fetched[int(place)*columns:][:columns]...)
		}
		came[process] = make([]float32, len(r.gives[process])*columns)
	}
	if err := comm.AllToAllOf(world, comm.Links, sent, came); err != nil {
		return err
	}
	for process, rows := range r.gives {
		for k, row := range rows {
			to := owned[int(row)*columns:][:columns]
			for j, grad := range came[process][k*columns:][:columns] {
				to[j] += grad
			}
		}
	}
	return nil
}

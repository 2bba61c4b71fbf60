package worker

import (
	"weft/comm"
)

// route is how rows of vertices come to the process that asks for them.
type route struct {
	asks  [][]int32 // by process: the places in the list of the vertices that it has
	gives [][]int32 // by process: this one's rows that it asks for
}

// owners are, by vertex of a type, the process that has its row, and the row there.
type owners struct{ process, row []int32 }

// ownersOf are those of a vertex type.
func (p *Passes) ownersOf(kind int) (*owners, error) {
	if of := p.owners[kind]; of != nil {
		return of, nil
	}
	mine := p.Rows(kind)
	if mine == nil {
		for v := range p.RowCount(kind) {
			mine = append(mine, int32(v))
		}
	}
	all, err := comm.GatherLists(p.Groups.World, comm.Setup, mine)
	if err != nil {
		return nil, err
	}
	n := p.Share.Whole.Types[kind].Vertices
	of := &owners{make([]int32, n), make([]int32, n)}
	for process, ids := range all {
		for row, v := range ids {
			of.process[v], of.row[v] = int32(process), int32(row)
		}
	}
	p.owners[kind] = of
	return of, nil
}

// routeOf is that of the rows of listed vertices. All processes call it together, each with its own list.
func (p *Passes) routeOf(kind int, vertices []int32) (*route, error) {
	world := p.Groups.World
	of, err := p.ownersOf(kind)
	if err != nil {
		return nil, err
	}
	r := &route{make([][]int32, world.Size()), make([][]int32, world.Size())}
	wanted, counts := make([][]int32, world.Size()), make([]int64, world.Size())
	for k, v := range vertices {
		owner := of.process[v]
		r.asks[owner], wanted[owner] = append(r.asks[owner], int32(k)), append(wanted[owner], of.row[v])
		counts[owner]++
	}
	all, err := comm.Gather(world, comm.Setup, counts...)
	if err != nil {
		return nil, err
	}
	for process := range r.gives {
		r.gives[process] = make([]int32, all[process*world.Size()+world.Rank()])
	}
	return r, comm.AllToAllOf(world, comm.Setup, wanted, r.gives)
}

// FetchRows copies the rows of listed vertices from the processes that have them. mine are this process's
// rows. All processes call it together, each with its own list.
func (p *Passes) FetchRows(kind, columns int, vertices []int32, mine, fetched []float32) error {
	r, err := p.routeOf(kind, vertices)
	if err != nil {
		return err
	}
	sent, came := make([][]float32, len(r.gives)), make([][]float32, len(r.asks))
	for process, rows := range r.gives {
		for _, row := range rows {
			sent[process] = append(sent[process], mine[int(row)*columns:][:columns]...)
		}
		came[process] = make([]float32, len(r.asks[process])*columns)
	}
	if err := comm.AllToAllOf(p.Groups.World, comm.Links, sent, came); err != nil {
		return err
	}
	for process, places := range r.asks {
		for k, place := range places {
			copy(fetched[int(place)*columns:][:columns], came[process][k*columns:])
		}
	}
	return nil
}

// ReturnRows adds the gradients of rows that FetchRows has fetched to those of the rows where they are from:
// by the order of the processes, and of their lists.
func (p *Passes) ReturnRows(kind, columns int, vertices []int32, fetched, mine []float32) error {
	r, err := p.routeOf(kind, vertices)
	if err != nil {
		return err
	}
	sent, came := make([][]float32, len(r.asks)), make([][]float32, len(r.gives))
	for process, places := range r.asks {
		for _, place := range places {
			sent[process] = append(sent[process], fetched[int(place)*columns:][:columns]...)
		}
		came[process] = make([]float32, len(r.gives[process])*columns)
	}
	if err := comm.AllToAllOf(p.Groups.World, comm.Links, sent, came); err != nil {
		return err
	}
	for process, rows := range r.gives {
		for k, row := range rows {
			to := mine[int(row)*columns:][:columns]
			for j, grad := range came[process][k*columns:][:columns] {
				to[j] += grad
			}
		}
	}
	return nil
}

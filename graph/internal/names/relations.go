package names

import (
	"fmt"

	"weft/graph"
	"weft/internal/memory"
)

// EntityType is the type of all vertices.
const EntityType = "entity"

// Relations has the entities and the relations that appeared by name, with the relations' edges.
type Relations struct {
	Entities *Table
	All      []Relation // by number

	numbers map[string]int
}

// Relation has the edges of one relation.
type Relation struct {
	Name  string // in the source
	Edges graph.Edges
}

// NewRelations are none, between no entities.
func NewRelations() *Relations { return &Relations{Entities: NewTable(), numbers: map[string]int{}} }

// Number returns the number of a relation: the next number if it is new. It fails if there is no memory.
func (t *Relations) Number(name []byte) (int, error) {
	if k, known := t.numbers[string(name)]; known {
		return k, nil
	}
	k := len(t.All)
	called := string(name)
	t.numbers[called] = k
	var err error
	t.All, err = memory.Append(t.All, Relation{Name: called})
	return k, err
}

// Add adds an edge to a relation. It fails if there is no memory.
func (r *Relation) Add(source, target int32) (err error) {
	e := &r.Edges
	if e.Source, err = memory.Append(e.Source, source); err == nil {
		e.Target, err = memory.Append(e.Target, target)
	}
	return err
}

// Vertices are the entities as the vertices of a graph, of one type.
func (t *Relations) Vertices() []graph.VertexType {
	return []graph.VertexType{
		{Type: EntityType, Frame: graph.Frame{Count: len(t.Entities.Names), Names: t.Entities.Names}},
	}
}

// Edges is how many edges the relations have.
func (t *Relations) Edges() (n int64) {
	for _, r := range t.All {
		n += int64(r.Edges.Len())
	}
	return n
}

// TooMany refuses more relations than a file of so many triples can have: each costs the file a triple, and
// the graph a row for each entity.
func (t *Relations) TooMany(triples int64) error {
	const rowsOfAnyFile, rowsOfATriple = 1 << 22, 1 << 10
	if rows := int64(len(t.Entities.Names)) * int64(len(t.All)); rows > rowsOfAnyFile+rowsOfATriple*triples {
		return fmt.Errorf("%d entities and %d relations, with only %d triples", len(t.Entities.Names),
			len(t.All), triples)
	}
	return nil
}

// Take returns the relations, with the names that called makes from those in the source, and empties the
// table of edges. It refuses if there is no memory for them and their reverse relations. Notes list the
// relations whose names changed.
func (t *Relations) Take(
	called func(name string) string,
) (relations []graph.Relation, notes []string, err error) {
	const bound, source = 8, 4
	vertices := len(t.Entities.Names)
	if err := memory.Need(2 * (bound*int64(vertices+1)*int64(len(t.All)) + source*t.Edges())); err != nil {
		return nil, nil, fmt.Errorf("%d entities and %d relations: %w", vertices, len(t.All), err)
	}
	unique, notes := t.Names(called)
	for k, name := range unique {
		r, err := graph.NewRelation(vertices, t.All[k].Edges)
		if err != nil {
			return nil, nil, err
		}
		t.All[k].Edges = graph.Edges{}
		r.Source, r.Name, r.Target = EntityType, name, EntityType
		relations = append(relations, r)
	}
	return relations, notes, nil
}

// Names returns the names of the relations. A name that is taken, or is that of a reverse relation, gets a
// number. A note has the source's name of each relation with a number.
func (t *Relations) Names(called func(name string) string) (all, notes []string) {
	taken, last := map[string]bool{}, map[string]int{}
	for _, r := range t.All {
		short := called(r.Name)
		name := short
		for n := last[short] + 1; ; n++ {
			if n > 1 {
				name = fmt.Sprintf("%s_%d", short, n)
			}
			if !taken[name] && !taken[graph.ReversePrefix+name] {
				last[short] = n
				break
			}
		}
		if name != short {
			notes = append(notes, fmt.Sprintf("relation %s is %s", name, r.Name))
		}
		taken[name], taken[graph.ReversePrefix+name] = true, true
		all = append(all, name)
	}
	return all, notes
}

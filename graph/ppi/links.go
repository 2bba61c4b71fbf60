package ppi

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// links are the edges of a file of networkx's node_link_data, source<<32 | target.
type links struct {
	directed bool
	pairs    []uint64
}

// readLinks reads a graph of so many vertices, whose ids are 0, 1, … Attributes of vertices and edges other
// than their ids are passed over. A file is read as it comes: it is not in memory as a whole.
func readLinks(path string, vertices int) (*links, error) {
	file, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	d := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	l := &links{}
	if err := l.read(d, vertices); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, refusal.Damaged("%s: byte %d: %w: the file is damaged or cut short", path,
				d.InputOffset(), err)
		}
		return nil, refusal.Errorf("%s: byte %d: %w; give what json.dump(networkx.node_link_data(graph)) "+
			"writes", path, d.InputOffset(), err)
	}
	return l, nil
}

// read reads the object.
func (l *links) read(d *json.Decoder, vertices int) error {
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return cmp.Or(err, errors.New("no object"))
	}
	nodes, edges := false, false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "directed":
			err = d.Decode(&l.directed)
		case "nodes":
			nodes = true
			err = readNodes(d, vertices)
		case "links", "edges": // the second since networkx 3.4
			edges = true
			err = l.readPairs(d, vertices)
		default:
			err = pass(d)
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, errors.New("more than one object"))
	}
	if !nodes || !edges {
		return errors.New("the object has no list nodes, or none of links")
	}
	return nil
}

// each calls item at each item of a list.
func each(d *json.Decoder, item func() error) error {
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return cmp.Or(err, errors.New("no list"))
	}
	for d.More() {
		if err := item(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// readNodes checks that the nodes are the vertices.
func readNodes(d *json.Decoder, vertices int) error {
	if err := memory.Need(int64(vertices)); err != nil {
		return err
	}
	seen := make([]bool, vertices)
	n := 0
	err := each(d, func() error {
		id, err := object(d, "id")
		if err != nil {
			return err
		}
		if id[0] < 0 || id[0] >= int64(vertices) || seen[id[0]] {
			return fmt.Errorf("node %d: a node has an id from 0 to %d, the row of its features, and each "+
				"has another", id[0], vertices-1)
		}
		seen[id[0]] = true
		n++
		return nil
	})
	if err == nil && n != vertices {
		err = fmt.Errorf("%d nodes for %d rows of features", n, vertices)
	}
	return err
}

// readPairs reads the ends of the edges.
func (l *links) readPairs(d *json.Decoder, vertices int) error {
	return each(d, func() (err error) {
		ends, err := object(d, "source", "target")
		if err != nil {
			return err
		}
		for _, v := range ends {
			if v < 0 || v >= int64(vertices) {
				return fmt.Errorf("an edge from %d to %d, where nodes are 0 to %d", ends[0],
					ends[1], vertices-1)
			}
		}
		l.pairs, err = memory.Append(l.pairs, uint64(ends[0])<<32|uint64(ends[1]))
		return err
	})
}

// object reads whole numbers of an object, under these keys. It passes over what else it has.
func object(d *json.Decoder, keys ...string) (values [2]int64, err error) {
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return values, cmp.Or(err, errors.New("no object"))
	}
	found := 0
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return values, err
		}
		at := slices.IndexFunc(keys, func(k string) bool { return json.Token(k) == key })
		if at < 0 {
			if err := pass(d); err != nil {
				return values, err
			}
			continue
		}
		value, err := d.Token()
		if err != nil {
			return values, err
		}
		number, ok := value.(float64)
		if !ok || number != float64(int64(number)) {
			return values, fmt.Errorf("%s %.40q is not a whole number", keys[at], fmt.Sprint(value))
		}
		values[at] = int64(number)
		found |= 1 << at
	}
	if _, err := d.Token(); err != nil {
		return values, err
	}
	if found != 1<<len(keys)-1 {
		return values, fmt.Errorf("an object without %q", keys)
	}
	return values, nil
}

// pass passes over a value.
func pass(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// edges are those within graphs, each once, sorted. It counts the others.
func (l *links) edges(graphOf []int32, left *left) (e graph.Edges, err error) {
	if !l.directed {
		listed := len(l.pairs)
		if l.pairs, err = memory.Grow(l.pairs, listed); err != nil {
			return e, err
		}
		for _, p := range l.pairs[:listed] {
			if source, target := uint32(p>>32), uint32(p); source != target {
				l.pairs = append(l.pairs, uint64(target)<<32|uint64(source))
			}
		}
	}
	slices.Sort(l.pairs)
	all := len(l.pairs)
	l.pairs = slices.Compact(l.pairs)
	left.duplicates += int64(all - len(l.pairs))
	if err := memory.Need(8 * int64(len(l.pairs))); err != nil {
		return e, err
	}
	for _, p := range l.pairs {
		source, target := int32(p>>32), int32(uint32(p))
		switch {
		case source == target:
			left.loops++
		case graphOf[source] != graphOf[target]:
			left.between++
		default:
			e.Source, e.Target = append(e.Source, source), append(e.Target, target)
		}
	}
	return e, nil
}

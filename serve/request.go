package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"weft/graph/appended"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
)

// What a request may have at most.
const (
	mostVertices = 10_000
	mostEdges    = 100_000 // new ones
)

// request is the body of POST /predict.
type request struct {
	vertices []id
	added    []newVertex
	edges    int      // of the new vertices
	columns  []string // nil: not given
}

// asked is a request that can be answered.
type asked struct {
	vertices []int32
	ids      []any // of the vertices, as the answer has them
	added    *appended.Graph
	unknown  map[string]int // by column, as in the answer
	columns  []predictions.Answer
}

// question is what the request asks of an inference.
func (s *Server) question(a *asked) *question {
	q := &question{vertices: a.vertices, added: a.added, answered: make(chan answer, 1)}
	if s.model.Table.Columns != predictions.Embedding && slices.Contains(a.columns, predictions.Hidden) {
		q.outputs = train.WithEmbeddings
	}
	return q
}

// badRequest is what is wrong with a request, and the status that says so.
type badRequest struct {
	error
	status int
}

func (b badRequest) Unwrap() error { return b.error }

// read reads the body of a request, whose memory it counts.
func (s *Server) read(r *http.Request, h *holding) (a asked, err error) {
	in := &scanner{from: bufio.NewReaderSize(r.Body, mostToken)}
	var body request
	_, err = in.next()
	if errors.Is(err, io.EOF) {
		return a, badRequest{errors.New("the body is empty; send " + s.example(2)), http.StatusBadRequest}
	}
	if err == nil {
		err = s.decode(in, &body, h)
	}
	if errors.Is(err, io.EOF) {
		err = refusal.Errorf("the body ends within its JSON object; send all of it")
	}
	if err == nil {
		if _, err = in.next(); err == nil {
			err = refusal.Errorf("the body has more than one JSON object; send one a request")
		} else if errors.Is(err, io.EOF) {
			a, err = s.check(&body, h)
		}
	}
	return a, s.bad(err)
}

// bad is an error of reading a request, with the status that says so.
func (s *Server) bad(err error) error {
	var known badRequest
	var form malformed
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, errLong):
		return badRequest{fmt.Errorf("the body has more than %d bytes; ask for fewer vertices at a time",
			mostBytes), http.StatusRequestEntityTooLarge}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return badRequest{fmt.Errorf("the body did not come within %s and a second more for each %d bytes, "+
			"%s at most; send it again", firstBytes, leastASpeed, readDeadline), http.StatusRequestTimeout}
	case errors.As(err, &form):
		return badRequest{fmt.Errorf("%w; send %s", err, s.example(2)), http.StatusBadRequest}
	}
	return badRequest{err, http.StatusBadRequest}
}

const keys = "vertices, columns and new, and of a new vertex id, type, columns, features and edges (out, in)"

// decode reads a request, up to the first thing that is wrong.
func (s *Server) decode(in *scanner, r *request, h *holding) error {
	room := func() error {
		if len(r.vertices)+len(r.added) == mostVertices {
			return refusal.Errorf("a request has %d vertices at most; ask in several", mostVertices)
		}
		return nil
	}
	return in.object("the body", []string{"vertices", "new", "columns"}, func(key string) error {
		switch key {
		case "vertices":
			return in.list(key, func() error {
				i, err := in.id()
				if err == nil {
					err = errors.Join(room(), h.take(idBytes+len(i.text)))
				}
				r.vertices = append(r.vertices, i)
				return err
			})
		case "new":
			return in.list(key, func() error {
				err := room()
				if err == nil {
					r.added = append(r.added, newVertex{})
					err = s.decodeNew(in, r, h)
				}
				if refusal.Is(err) {
					return refusal.Errorf("new vertex %d: %w", len(r.added), err)
				}
				return err
			})
		}
		r.columns = []string{}
		return in.list(key, func() error {
			name, err := in.text("a column")
			if err == nil && !slices.Contains(s.given(), predictions.Answer(name)) {
				err = refusal.Errorf("%.100q is no column of these predictions; give some of %v", name, s.given())
			}
			if slices.Contains(r.columns, name) {
				err = refusal.Errorf("the column %s is named twice; name it once", name)
			}
			r.columns = append(r.columns, name)
			return err
		})
	})
}

// given are the columns that an answer may have.
func (s *Server) given() []predictions.Answer {
	if all := predictions.Given(s.model.Table.Columns); all != nil {
		return all
	}
	return []predictions.Answer{predictions.Hidden}
}

// check finds the vertices and the columns of a request.
func (s *Server) check(body *request, h *holding) (a asked, err error) {
	if len(body.vertices)+len(body.added) == 0 {
		return a, refusal.Errorf("no vertex is named; give the ids of some as vertices, or new ones as new")
	}
	for _, one := range body.vertices {
		v, err := s.ids[0].find(one)
		if err != nil {
			return a, err
		}
		a.vertices, a.ids = append(a.vertices, v), append(a.ids, s.ids[0].of(v))
	}
	if len(body.added) > 0 {
		added, err := s.add(body.added, h)
		if err != nil {
			return a, err
		}
		if a.added, err = s.model.Predictor.Base().With(added.Addition); err != nil {
			return a, err
		}
		a.vertices, a.unknown = append(a.vertices, added.predict...), added.unknown
		for _, v := range body.added {
			if v.kind == "" || v.kind == s.types[0].Type {
				a.ids = append(a.ids, v.id.text)
			}
		}
		if len(a.vertices) == 0 {
			return a, refusal.Errorf("no vertex of type %s is asked for, which alone have predictions; name "+
				"some", s.types[0].Type)
		}
	}
	if body.columns == nil {
		a.columns = predictions.ByDefault(s.model.Table.Columns)
		return a, nil
	}
	for _, name := range body.columns {
		a.columns = append(a.columns, predictions.Answer(name))
	}
	if len(a.columns) == 0 {
		return a, refusal.Errorf("no column is named; give some of %v", s.given())
	}
	return a, nil
}

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
)

// request is the body of POST /predict.
type request struct {
	Vertices []id         `json:"vertices"`
	Edges    []scoredEdge `json:"edges"` // edges to predict; the request then has no vertices
	New      []newVertex  `json:"new"`
	Columns  []string     `json:"columns"`
}

// asked is a request that can be answered.
type asked struct {
	train.Query
	rows    []rowID        // what the answer calls the rows
	unknown map[string]int // counts by column, as in the answer
	columns []predictions.Answer
}

// question returns what an inference has to answer.
func (s *Server) question(a *asked) *question {
	q := &question{Query: a.Query, answered: make(chan answer, 1)}
	if s.model.Table.Columns != predictions.Embedding && slices.Contains(a.columns, predictions.Hidden) {
		q.outputs = train.WithEmbeddings
	}
	return q
}

// badRequest says what is wrong with a request, and has the status for it.
type badRequest struct {
	error
	status int
}

func (b badRequest) Unwrap() error { return b.error }

// read reads the body of a request, whose memory it counts.
func (s *Server) read(from io.Reader, h *holding) (a asked, err error) {
	var body request
	decoder := json.NewDecoder(&limits{Reader: from, holds: h})
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return a, undecoded(err, "send "+s.example(2))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return a, badRequest{
			errors.New("the body has more than one JSON object; send one a request"),
			http.StatusBadRequest,
		}
	}
	if a, err = s.check(&body, h); refusal.Is(err) {
		err = badRequest{err, http.StatusBadRequest}
	}
	return a, err
}

// undecoded says what is wrong with a body that does not decode. example is a request that does.
func undecoded(err error, example string) error {
	var known badRequest
	var kind *json.UnmarshalTypeError
	_, unknown, _ := strings.Cut(err.Error(), "unknown field ")
	status := http.StatusBadRequest
	var text string
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, errLong):
		status = http.StatusRequestEntityTooLarge
		text = fmt.Sprintf("the body has more than %d bytes; ask for fewer vertices at a time", mostBytes)
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
		text = fmt.Sprintf("the body did not come within %s and a second for each %d bytes, at most %s; send it "+
			"again", firstBytes, leastASpeed, readDeadline)
	case errors.Is(err, io.EOF):
		text = "the body is empty; " + example
	case errors.Is(err, io.ErrUnexpectedEOF):
		text = "the body ends within its JSON object; send all of it"
	case refusal.Is(err):
		text = err.Error()
	case unknown != "":
		text = unknownKey(strings.Trim(unknown, `"`)).Error()
	case errors.As(err, &kind):
		if strings.HasSuffix(kind.Field, ".edges") {
			example = `send {"out": [IDS], "in": [IDS]}`
		}
		text = fmt.Sprintf("%.100s cannot be a JSON %s; %s", kind.Field, kind.Value, example)
		if kind.Field == "" {
			text = fmt.Sprintf("the body is a JSON %s, and not an object; %s", kind.Value, example)
		}
	default:
		text = fmt.Sprintf("the body is not JSON: %v; %s", err, example)
	}
	return badRequest{errors.New(text), status}
}

// keys are the keys of all objects, without the columns of a new vertex and of an edge to predict.
var keys = []string{
	"vertices", "columns", "new", "id", "type", "features", "edges", "out", "in", "relation", "weight",
}

func unknownKey(key string) error {
	return refusal.Errorf("the key %.40q is not known here; keys are vertices, columns and new (edges, of a "+
		"model that predicts these), of a new vertex id, type, columns, features and edges (out, in), and of an edge id, relation, weight and features", key)
}

// check finds the vertices or edges of a request, and its columns.
func (s *Server) check(body *request, h *holding) (a asked, err error) {
	if s.learned != nil {
		err = s.takeEdges(&a, body, h)
	} else {
		err = s.takeVertices(&a, body, h)
	}
	if err != nil {
		return a, err
	}
	valid := predictions.Given(s.model.Table.Columns)
	if valid == nil {
		valid = []predictions.Answer{predictions.Hidden}
	}
	if s.learned != nil { // only vertices have embeddings
		valid = slices.DeleteFunc(valid, func(a predictions.Answer) bool { return a == predictions.Hidden })
	}
	if body.Columns == nil {
		if a.columns = s.model.Table.Answers; a.columns == nil {
			a.columns = predictions.ByDefault(s.model.Table.Columns)
		}
		return a, nil
	}
	for k, name := range body.Columns {
		if slices.Contains(body.Columns[:k], name) {
			return a, refusal.Errorf("the column %.100q comes twice; name it once", name)
		}
		a.columns = append(a.columns, predictions.Answer(name))
		if !slices.Contains(valid, predictions.Answer(name)) {
			return a, refusal.Errorf("%.100q is no column of these predictions; give some of %v", name, valid)
		}
	}
	if len(a.columns) == 0 {
		return a, refusal.Errorf("no column is named; give some of %v", valid)
	}
	return a, nil
}

// takeVertices finds the vertices of a request.
func (s *Server) takeVertices(a *asked, body *request, h *holding) error {
	switch {
	case len(body.Edges) > 0:
		return refusal.Errorf("edges: the model predicts vertices, and no edges; give vertices")
	case len(body.Vertices)+len(body.New) == 0:
		return refusal.Errorf("no vertex is named; give the ids of some as vertices, or new ones as new")
	}
	for _, vertex := range body.Vertices {
		v, err := s.ids[0].find(vertex)
		if err != nil {
			return err
		}
		a.Vertices, a.rows = append(a.Vertices, v), append(a.rows, rowID{{vertexKey, s.ids[0].id(v)}})
	}
	added, err := s.add(body.New, h)
	if err == nil {
		err = s.extend(a, added)
	}
	if err != nil || added == nil {
		return err
	}
	for k, name := range added.names[0] {
		a.Vertices = append(a.Vertices, int32(s.types[0].Count+k))
		a.rows = append(a.rows, rowID{{vertexKey, name}})
	}
	if len(a.Vertices) == 0 {
		return refusal.Errorf("no vertex of type %s is asked for, which alone have predictions; name some",
			s.types[0].Name())
	}
	return nil
}

// extend makes a request be answered on the graph with added; nil: on the graph alone.
func (s *Server) extend(a *asked, added *addition) (err error) {
	if added != nil {
		a.unknown = added.unknown
		a.Appended, err = s.model.Predictor.Base().With(added.Addition)
	}
	return err
}

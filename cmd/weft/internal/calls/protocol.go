// Package calls answers a process that calls models as its own functions: the package of Python, whose
// weft.compile makes a module of a model on a divided graph. The process starts one program, and asks for the
// passes of all its models.
//
// # Protocol, version 2
//
// Both have an end of a stream socket of Unix. The process sends a request, and the program an answer, one
// after the other. Each is a JSON object behind its length in 4 bytes, the lowest first. The program ends
// when the process closes its end.
//
//	open      version, net, arguments, divided?, lacking (of, type, features, weights)
//	            opens a graph for a model: the words of weft train's command line
//	            → types (name, vertices, features), outputs (type, columns), parameters and buffers
//	              (name, shape), counts (names)
//	plan      version, arguments, loop (passes, features, gradients)
//	            → planned, types            plans the passes of a loop that live together
//	map       memory, bytes               maps a file that comes with the request, shared by both
//	unmap     memory
//	forward   net, pass, values, counters, output, blocks, inputs (of, type, memory, differentiable), rows?,
//	          listed, seed, training, recording
//	            → counters
//	backward  net, pass, output, blocks, values, inputs (of, type, memory), rows?, listed,
//	          again
//	close     net
//	usage     net                         → usage, of memory since open, of all else in the last pass
//	trace     net, path?                  records passes from now on; with a path writes what is recorded
//	drop
//
// Each request has an id, which its answer repeats, and may have drop, a list of [net, pass]: they end before
// anything else. An answer to what makes no sense has refused, a line, and to what failed has failed, and
// nothing else. Others have warnings, lines.
//
// Models, passes and memory have numbers, which the process chooses. Models that are opened with one number
// as divided have a graph in common, which is opened and divided for the first of them. values is memory with
// the float32 numbers of all parameters, in the order of open, each in the shape of PyTorch's state_dict; in
// forward those of all buffers follow. forward changes the buffers there if it is training. backward writes
// the gradients of parameters. inputs are given in place of what the graph has: memory of features has a row
// for each vertex of the type with that number in open's types; that of edges (not 0 for those that the pass
// has), edge_weights and edge_features a number or row for each edge of the relation with that number, in the
// order of the store: by target, then by source. What is given of edges stays as it is until the pass ends.
// lacking says what all passes are given, as the graph has none: of vertices of a type columns of features,
// and of edges of a relation that, and whether there are weights. backward has those inputs that are
// differentiable, whose gradients go to their memory. outputs are by vertex type. blocks (type, columns,
// whole) are their columns, which stand one behind the other in the memory output, in backward their
// gradients. A block has a row for each vertex of its type, or, in a graph of one type, for each of those
// listed in the memory of rows (int32, ascending), and one row if it is whole. counters are the numbers of
// integer buffers. again has the pass stay as it is.
package calls

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"weft/train/plan"
	"weft/train/worker"
)

// version is that of the protocol.
const version = 2

// mostBytes is the size of a request at most.
const mostBytes = 64 << 20

// request is what the process asks for. Fields that a request does not have are zero.
type request struct {
	ID        int       `json:"id"`
	Ask       string    `json:"ask"`
	Version   int       `json:"version"`
	Net       int       `json:"net"`
	Arguments []string  `json:"arguments"`
	Lacking   []lacking `json:"lacking"`
	Memory    int       `json:"memory"`
	Bytes     int64     `json:"bytes"`
	Values    int       `json:"values"`
	Counters  []int64   `json:"counters"`
	Inputs    []input   `json:"inputs"`
	Output    int       `json:"output"`
	Rows      int       `json:"rows"`   // memory; 0: none
	Listed    int       `json:"listed"` // how many rows
	Blocks    []block   `json:"blocks"`
	Again     bool      `json:"again"`
	Pass      int       `json:"pass"`
	Seed      uint64    `json:"seed"`
	Training  bool      `json:"training"`
	Recording bool      `json:"recording"`
	Drop      [][2]int  `json:"drop"`

	Path    string    `json:"path"` // of the trace; "": none
	Loop    plan.Loop `json:"loop"`
	Divided int       `json:"divided"` // 0: the model has it alone

	file int // that came with it; -1: none
}

// input is what a pass is given in place of what the graph has.
type input struct {
	Of             string `json:"of"`   // what it is: features, edges, edge_weights or edge_features
	Type           int    `json:"type"` // the number of the vertex type or relation
	Memory         int    `json:"memory"`
	Differentiable bool   `json:"differentiable"`
}

// lacking is what all passes are given of a vertex type or a relation, as the graph has none.
type lacking struct {
	Of       string `json:"of"`       // vertices or edges
	Type     int    `json:"type"`     // the number of the vertex type or the relation
	Features int    `json:"features"` // columns
	Weights  bool   `json:"weights"`
}

// block is some of an output's columns, which follow those of the block before of that output.
type block struct {
	Type    int  `json:"type"` // the number of the output's vertex type
	Columns int  `json:"columns"`
	Whole   bool `json:"whole"` // the same for all vertices
}

// answer is what the program says. Fields that an answer does not have are left out.
type answer struct {
	ID       int      `json:"id"`
	Refused  string   `json:"refused,omitempty"`
	Failed   string   `json:"failed,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	Types      []vertexType `json:"types,omitempty"`
	Outputs    []output     `json:"outputs,omitempty"`
	Parameters []named      `json:"parameters,omitempty"`
	Buffers    []named      `json:"buffers,omitempty"`
	Counts     []string     `json:"counts,omitempty"`

	Counters []int64 `json:"counters,omitempty"`

	Usage   *usage   `json:"usage,omitempty"`
	Planned *planned `json:"planned,omitempty"`
}

// planned is what a loop would take. Lists have an entry for each worker; of messages it is a pass.
type planned struct {
	PeakTensorBytes []int64              `json:"peak_tensor_bytes"`
	GraphBytes      []int64              `json:"graph_bytes"`
	Kinds           []string             `json:"kinds"`
	Peaks           [][]int64            `json:"peaks"` // workers × kinds
	Communication   worker.Communication `json:"communication"`
	EdgeColumns     []int64              `json:"edge_columns"`
	DiskBytes       int64                `json:"disk_bytes"` // that rest at the peak
	Recompute       bool                 `json:"recompute"`
}

// usage is what the workers of a model have used. Lists have an entry for each worker.
type usage struct {
	worker.Usage
	LiveBytes []int64       `json:"live_bytes"`
	Kinds     []string      `json:"kinds"`
	Peaks     [][]int64     `json:"peaks"` // workers × kinds
	Layers    worker.Layers `json:"layers"`
}

// vertexType is a type of the graph's vertices.
type vertexType struct {
	Name     string `json:"name"`
	Vertices int    `json:"vertices"`
	Features int    `json:"features"` // columns
}

// output is the rows of a vertex type that a pass computes.
type output struct {
	Type    int `json:"type"` // its number
	Columns int `json:"columns"`
}

// named is a tensor of a model.
type named struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// receive reads a request. io.EOF: the process has closed its end.
func receive(from *net.UnixConn) (r request, err error) {
	r.file = -1
	head, room := make([]byte, 4), make([]byte, unix.CmsgSpace(4))
	n, files, _, _, err := from.ReadMsgUnix(head, room)
	if err == nil && n == 0 {
		return r, io.EOF
	}
	if err == nil {
		err = rest(from, head[n:])
	}
	if err != nil {
		return r, err
	}
	if r.file, err = fileIn(room[:files]); err != nil {
		return r, err
	}
	size := binary.LittleEndian.Uint32(head)
	if size > mostBytes {
		return r, fmt.Errorf("a request of %d bytes: they have at most %d", size, mostBytes)
	}
	text := make([]byte, size)
	if err := rest(from, text); err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// rest reads the rest of a request that has begun.
func rest(from io.Reader, into []byte) error {
	_, err := io.ReadFull(from, into)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// fileIn is the descriptor in a control message, −1 if there is none.
func fileIn(control []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 {
		return -1, err
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 1 {
		return -1, errors.Join(err, errors.New("a request comes with one file at most"))
	}
	unix.CloseOnExec(files[0])
	return files[0], nil
}

// send writes an answer.
func send(to *net.UnixConn, a answer) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = to.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// socket is the end of a socket that a descriptor is.
func socket(number int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(number), "socket")
	if f == nil {
		return nil, fmt.Errorf("%d is no descriptor", number)
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("it is no socket of Unix"), c.Close())
	}
	return u, nil
}

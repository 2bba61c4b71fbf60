// Package calls answers a process that calls models as its own functions: the Python package, whose
// weft.compile makes a module of a model on a divided graph. The process starts one program, and asks it for
// the passes of all its models.
//
// # Protocol, version 13
//
// A Unix stream socket connects the two. The process sends a request, and waits for the program's answer.
// Each is a JSON object after its length: 4 bytes, the lowest first. A request has at most 64 MiB. The
// program ends when the process closes its end.
//
//	ask       what the program does                    request, and → answer
//	check     refuses settings that make no sense      version, arguments
//	join      joins the processes of the launcher      version, call, arguments
//	                                                   → process, processes, group, groups
//	open      opens a graph for a model                version, model, call, arguments, divided?, lacking,
//	                                                   graph?, like?
//	                                                   → types, parameters, buffers, counters, edges
//	refuse    tells the other processes why this one   call, arguments, reason
//	          opens no model
//	plan      plans passes of a loop                   version, arguments, lacking, graph?, loop
//	                                                   → types, planned
//	map       maps the file that comes with it         memory, bytes
//	unmap     ends that                                memory
//	forward   computes a pass                          model, pass, values, counts, inputs, output, blocks,
//	                                                   rows?, seeds, training, recording → counts
//	backward  runs a pass backward, which ends it      model, pass, values, inputs, output, blocks, rows?,
//	                                                   again
//	vertices  tells the vertices of this process       model, type, vertices
//	edges     tells the edges of this process          model, type, vertices
//	sum       adds up numbers of the processes         model, call, alike, values, listed, of_group
//	first     gives numbers of the first to all        model, values, listed
//	fetch     fetches rows of other processes          model, type, columns, values, vertices, listed,
//	                                                   output
//	return    brings their gradients back              as fetch
//	leave     takes leave of the other processes
//	usage     tells memory since open, and all else    model → usage
//	          of the last pass that ran backward
//	trace     records passes from now on,              model
//	          or writes what is recorded of models     model, path, others
//	close     ends a model                             model
//
// Each request has id and ask, and may have drop: a list of [model, pass]. These passes end before anything
// else. The answer repeats the id. It has refused, a line, if the request makes no sense, or failed, a line,
// if the work failed. Otherwise it has warnings, a list of lines, and what the table says. When a pass has
// failed, its model has ended.
//
// The process chooses the numbers of models, passes and memory. Memory has float32 numbers, which both read
// and write. Tensors follow each other in it, each in the order of its rows.
//
//	arguments   words of weft train's command line: settings, and the graph. Of a plan they may be the
//	            counts of a graph that is not there, as weft plan has them.
//	call        names the call in errors, where processes do not make the same ones.
//	reason      why the process does not make the call: the others refuse theirs by it.
//	alike       names and checksums (sum) of what all processes bring alike.
//	divided     a number of the graph: it is opened and divided once for all models with that number.
//	types       the graph's vertex types: name, vertices, features (columns). Elsewhere a type is its place
//	            among these.
//	parameters  their names and shapes, as in PyTorch's state_dict.
//	buffers     the same of the buffers of floats.
//	counters    the names of the buffers of one whole number.
//	edges       of each relation, of how many edges the process gives and gets values, where it is one of
//	            several, or there are outputs of edges.
//	graph       a graph in memory, in place of one in the arguments: types (name and vertices), and
//	            relations: source, name, target, edges (how many), memory (int32: all sources, and then all
//	            targets), batch (the targets are the graphs of a batch, the last type). Edges are numbered
//	            by target and then by source, those alike in the order of the memory. parts is memory of
//	            the partition of each vertex (int32), or points of the positions, of so many dimensions:
//	            of all vertices but those that are graphs. All processes give the same graph.
//	like        an open model, whose settings and program the model has in place of those of arguments.
//	lacking     what each pass is given, as the graph has none: of (vertices or edges), type (the number of
//	            the vertex type or the relation), features (columns), weights (whether it has any).
//	values      memory. In forward it has all parameters, and then all buffers, which a pass in training
//	            changes. In backward gradients of the parameters are written there.
//	counts      the values of the counters.
//	inputs      what the pass reads in place of what the graph has: of, type, memory, differentiable,
//	            sample.
//	            of is features (a row for each vertex of a type), edges (not 0: the pass has the edge),
//	            edge_weight or edge_features (a number or a row for each edge of a relation). Edges are in
//	            the order of the store: by target, then by source. What is given of edges stays in its
//	            memory until the pass ends. In backward there are those inputs whose gradients are asked
//	            for, which are written to their memory.
//	            sample is the number of the sample among those that a pass of the process takes.
//	output      memory of the outputs' blocks, in backward of their gradients: those of the samples stand
//	            one behind the other.
//	blocks      columns of the program's output of a vertex type, in their order: type, columns, whole,
//	            everywhere.
//	            A block has a row for each vertex of the type; one that is whole has one row, of the graph.
//	            One that is everywhere has the rows of all vertices of the type on each process.
//	            With edges, type is a relation, of which the output is: a block has a row for each edge, and
//	            those of edges that the pass does not have are not written.
//	rows        the vertices of a type whose rows its blocks have in place of all: type, memory (int32,
//	            ascending), listed (how many).
//	seeds       of the dropout masks: of each group of workers one. The first process's count.
//	training    dropout is active, and norms take the batch's statistics.
//	recording   there may be a backward pass.
//	again       the pass stays, for another backward pass.
//	vertices    memory of vertices (int32); listed is how many. Of edges it is of those into the process's
//	            vertices, by their numbers in the store (int64), and type is a relation. Of sum, values are
//	            listed doubles, and of first floats. Of fetch and return, values are the rows of this
//	            process's vertices, and output those of the listed ones: matrices of so many columns.
//	of_group    the sums are over the processes of each group of workers.
//	apart       each process has the graph, and divides it in memory.
//	process     the number of this process among the processes of the launcher that has started it.
//	groups      how many groups of workers take samples of their own; group is that of this process. A pass
//	            of a process that has all groups takes a sample for each.
//	others      models on the same divided graph, whose passes are written, too.
//	loop        passes (how many live together), and inputs of each, without memory.
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

	"weft/cmd/weft/internal/planning"
	"weft/comm/launch"
	"weft/train"
	"weft/train/worker"
)

// Version is the protocol's version.
const Version = 13

// mostBytes is the largest size of a request.
const mostBytes = 64 << 20

// request is what all requests have. The rest is in the text, for the ask's own struct. Fields that a request
// does not have are zero.
type request struct {
	ID   int      `json:"id"`
	Ask  string   `json:"ask"`
	Drop [][2]int `json:"drop"` // models and passes
	file int      // the file that came with the request; -1: none
	text []byte   // the whole request
}

// modelRequest has the model of the requests of models.
type modelRequest struct {
	Model int `json:"model"`
}

type checkRequest struct {
	Version   int      `json:"version"`
	Arguments []string `json:"arguments"`
}

type openRequest struct {
	modelRequest
	checkRequest
	Call    string          `json:"call"`
	Divided int             `json:"divided"` // 0: only this model has its graph
	Apart   bool            `json:"apart"`
	Lacking []train.Lacking `json:"lacking"`
	Graph   *memoryGraph    `json:"graph"` // nil: the arguments name it
	Like    int             `json:"like"`  // 0: the arguments have settings
}

type refuseRequest struct {
	Call      string   `json:"call"`
	Arguments []string `json:"arguments"`
	Reason    string   `json:"reason"`
}

type planRequest struct {
	checkRequest
	Lacking []train.Lacking `json:"lacking"`
	Graph   *memoryGraph    `json:"graph"` // nil: the arguments name it, or its counts
	Loop    loop            `json:"loop"`
}

type mapRequest struct {
	Memory int   `json:"memory"`
	Bytes  int64 `json:"bytes"`
}

type unmapRequest struct {
	Memory int `json:"memory"`
}

// passRequest is what forward and backward have in common.
type passRequest struct {
	Pass   int     `json:"pass"`
	Values int     `json:"values"` // memory
	Inputs []input `json:"inputs"`
	Output int     `json:"output"` // memory
	Blocks []block `json:"blocks"`
	Rows   []rows  `json:"rows"` // of the types of which the pass lacks some rows
}

type forwardRequest struct {
	passRequest
	Counts    []int64  `json:"counts"`
	Seeds     []uint64 `json:"seeds"` // by group of workers
	Training  bool     `json:"training"`
	Recording bool     `json:"recording"`
}

type backwardRequest struct {
	passRequest
	Again bool `json:"again"`
}

// numbersRequest is the request of vertices and of edges.
type numbersRequest struct {
	Type     int `json:"type"`     // the number of the vertex type, or of the relation
	Vertices int `json:"vertices"` // memory; for edges, too
}

type sumRequest struct {
	firstRequest
	Call    string         `json:"call"`
	Alike   []launch.Alike `json:"alike"`
	OfGroup bool           `json:"of_group"` // over the processes of each group of workers
}

type firstRequest struct {
	Values int `json:"values"` // memory
	Listed int `json:"listed"` // how many numbers there are
}

// exchangeRequest is the request of fetch and of return.
type exchangeRequest struct {
	numbersRequest
	firstRequest
	Columns int `json:"columns"`
	Output  int `json:"output"` // memory
}

type traceRequest struct {
	Path   string `json:"path"`   // "": none
	Others []int  `json:"others"` // models
}

// rows are the vertices of a type whose rows are in the blocks.
type rows struct {
	Type   int `json:"type"`   // the number of the vertex type
	Memory int `json:"memory"` // of their numbers
	Listed int `json:"listed"` // how many
}

// input is what a pass is given in place of data of the graph.
type input struct {
	Kind           string `json:"of"`   // features, edges, edge_weight or edge_features
	Type           int    `json:"type"` // the number of the vertex type or relation
	Memory         int    `json:"memory"`
	Differentiable bool   `json:"differentiable"`
	Sample         int    `json:"sample"` // the number of the sample, among those of the process's pass
}

// loop is a loop of passes. It says how many of them live at a time.
type loop struct {
	Passes int     `json:"passes"`
	Inputs []input `json:"inputs"` // the inputs of each pass
}

// block is some of an output's columns. They follow the columns of the output's block before.
type block struct {
	Type    int  `json:"type"`  // the number of the output's vertex type, or of its relation
	Edges   bool `json:"edges"` // the output is a relation's, not a vertex type's
	Columns int  `json:"columns"`
	Whole   bool `json:"whole"` // all vertices have the same row
	// Everywhere: of several processes each has the rows of all vertices of the type.
	Everywhere bool `json:"everywhere"`
}

// answer is what the program says. Fields that an answer does not have are left out.
type answer struct {
	ID       int      `json:"id"`
	Refused  string   `json:"refused,omitempty"`
	Failed   string   `json:"failed,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	Types      []train.VertexType `json:"types,omitempty"`
	Parameters []named            `json:"parameters,omitempty"`
	Buffers    []named            `json:"buffers,omitempty"`
	Counters   []string           `json:"counters,omitempty"`
	Edges      []int              `json:"edges,omitempty"`
	Process    int                `json:"process,omitempty"`
	Processes  int                `json:"processes,omitempty"`
	Group      int                `json:"group,omitempty"`  // the number of the group of workers
	Groups     int                `json:"groups,omitempty"` // for open and plan

	Counts []int64 `json:"counts,omitempty"`

	Usage   *usage         `json:"usage,omitempty"`
	Planned *planning.Loop `json:"planned,omitempty"`
}

// usage is what the workers of a model have used. Lists have an entry for each worker.
type usage struct {
	worker.Usage
	LiveBytes []int64       `json:"live_bytes"`
	Kinds     []string      `json:"kinds"`
	Peaks     [][]int64     `json:"peaks"` // workers × kinds
	Layers    worker.Layers `json:"layers"`
}

// named is a tensor of a model.
type named struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// size is the number of the tensor's elements.
func (n named) size() int {
	size := 1
	for _, dim := range n.Shape {
		size *= dim
	}
	return size
}

// receive reads a request. io.EOF says that the process has closed its end.
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
	r.text = make([]byte, size)
	if err := rest(from, r.text); err != nil {
		return r, err
	}
	return r, json.Unmarshal(r.text, &r)
}

// rest reads the rest of a request that has begun.
func rest(from io.Reader, into []byte) error {
	_, err := io.ReadFull(from, into)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// fileIn is the descriptor in a control message; −1: there is none.
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

// socket makes the end of a socket from a descriptor.
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

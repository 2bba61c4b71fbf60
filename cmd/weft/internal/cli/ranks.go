package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/ui"
	"weft/comm"
	"weft/comm/launch"
	"weft/comm/mpi"
	"weft/internal/cores"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
	"weft/train/planner"
	"weft/train/setting"
	"weft/train/worker"
)

// Version is the version of this program. The program sets it at its start.
var Version string

// Ranks is this process's place among the processes that an MPI launcher started. Without a launcher it is
// alone.
type Ranks struct{ launch.Ranks }

// Alone is a process that no launcher started.
func Alone() Ranks { return Ranks{launch.Ranks{Comm: comm.Alone()}} }

// AsRank does the work of a command as one of the processes that a launcher started, or alone. err is what
// this rank has found wrong with the request so far. If any rank has found something wrong, all end without
// doing the work.
func AsRank(cmd *cobra.Command, o *setting.Resolved, err error, work func(Ranks) error) error {
	r, err := connect(cmd, o, err)
	if err == nil {
		err = work(r)
	}
	if err != nil {
		r.partWithSignals()
	}
	return r.End(err, func(err error) { SayError(os.Stderr, err) })
}

// connect joins the other processes, all of which must have the same settings.
func connect(cmd *cobra.Command, o *setting.Resolved, err error) (Ranks, error) {
	settings := ""
	if err == nil {
		settings, err = sharedSettings(*o)
	}
	return Connect(cmd, o, settings, err)
}

// Connect joins the other processes that a launcher started. Without a launcher the process is alone.
// settings must be the same on all. err is what this rank has found wrong with the request so far.
func Connect(cmd *cobra.Command, o *setting.Resolved, settings string, err error) (Ranks, error) {
	if !mpi.Launched() {
		refused := checkAlone(EnvironmentNumber("SLURM_STEP_NUM_TASKS"), ConnectingOption)
		return Alone(),
			cmp.Or(launch.ToldByFirst(EnvironmentNumber("SLURM_PROCID"), refused), err)
	}
	if mpi.Rank() > 0 {
		cmd.SetOut(io.Discard)
		cmd.SetErr(&OnlyErrors{cmd.ErrOrStderr()})
	}
	s := launch.Start{Rank: mpi.Rank(), Timeout: setting.Defaults().CommTimeout, Found: err}
	if err == nil {
		s.Timeout = o.CommTimeout
		s.Program = launch.Program{Version: Version, Rounding: kernel.SIMD(), Settings: settings}
		if o.Storage == tensor.BFloat16 {
			s.Program.Rounding += " (bf16 by " + kernel.BFloat16Products() + ")"
		}
		s.Found = checkMesh(o, mpi.Ranks())
	}
	// A launcher whose rank ends while MPI starts may never end itself, so that a signal waits for the start.
	starting, stop := UntilSignal(cmd.Context(), func(s os.Signal) {
		fmt.Fprintf(os.Stderr, "weft: rank %d: signal %q during the start of MPI\n", mpi.Rank(), s)
	}, nil)
	defer stop()
	s.Connect = func() (comm.Transport, error) { return mpi.Start(s.Timeout) }
	s.Connected = func(r launch.Ranks) error {
		explainSignals(r.Interrupted)
		return Heard(starting, stop) // from now on a signal ends this rank's waits
	}
	r, err := s.Join()
	return Ranks{r}, err
}

// JoinsRanks is the annotation of a command whose processes work together if a launcher started them.
const JoinsRanks = "ranks"

func joins(cmd *cobra.Command) bool { _, found := cmd.Annotations[JoinsRanks]; return found }

// ShareMistake ends all ranks with the mistake in the command line of one rank. The others may not have it,
// and wait for that rank. If the command does not join the ranks, each process speaks for itself. A word that
// names no command counts as a command that does.
func ShareMistake(cmd *cobra.Command, err error) error {
	if mpi.Launched() && (joins(cmd) || !cmd.HasParent()) {
		return AsRank(cmd, nil, refusal.Errorf("%w", err), nil)
	}
	return err
}

// OncePerMachine leaves a command that does not join the ranks to the first process on each machine. The
// others succeed without work: they would print the same, or write the same files at the same time.
func OncePerMachine(cmd *cobra.Command) {
	if mpi.LocalRank() > 0 && !joins(cmd) {
		cmd.RunE = func(*cobra.Command, []string) error { return nil }
	}
}

// checkAlone refuses to be one of several tasks that Slurm started without a connection: each would do the
// whole work. option returns the option of srun that connects them; "": no MPI library loads. It is called
// only for such tasks, as it loads a library.
func checkAlone(tasks int, option func() string) error {
	if tasks <= 1 {
		return nil
	}
	connect := option()
	if connect == "" {
		return refusal.Errorf("srun started %d tasks, but no library of MPI loads, and each task would do "+
			"the whole work: install Open MPI, or give srun -n 1", tasks)
	}
	return refusal.Errorf("srun started %d tasks without connecting them, so that each would do the whole "+
		"work: give srun %s for one run of all, or -n 1", tasks, connect)
}

// checkMesh refuses a mesh whose number of workers is not the number of processes.
func checkMesh(o *setting.Resolved, processes int) error {
	workers := o.Workers
	switch {
	case o.Parallel == "" && processes > 1:
		return refusal.Errorf("the launcher started %d processes, but no mesh says how they share the "+
			"work: give --parallel graph=%d", processes, processes)
	case workers != processes:
		return refusal.Errorf("--parallel %s: a mesh of %s, but the launcher started %s: start "+
			"%d, or give another mesh, as --parallel graph=%d",
			o.Parallel, ui.Counted(workers, "worker", "workers"),
			ui.Counted(processes, "process", "processes"),
			workers, processes)
	}
	return nil
}

// OnlyErrors is standard error of a rank other than 0, to which only the error that ends the process goes.
type OnlyErrors struct{ Errors io.Writer }

func (*OnlyErrors) Write(p []byte) (int, error) { return len(p), nil }

// sharedSettings are the settings that must be the same on all ranks.
func sharedSettings(o setting.Resolved) (string, error) {
	o.Threads, o.MemoryLimit = 0, 0
	text, err := o.YAML()
	return string(text) + o.Texts()["program"], err
}

// Decided returns, on all ranks, what f returns on the first rank.
func Decided[T any](r Ranks, f func() (T, error)) (found T, err error) {
	err = r.OnFirst(func() (err error) {
		found, err = f()
		return err
	})
	if err != nil {
		return found, err
	}
	return worker.FromFirst(r.Comm, found)
}

// Part ends the command with an error to which all ranks come here.
func (r Ranks) Part(err error) error {
	r.partWithSignals()
	return &launch.Common{Err: err}
}

// partWithSignals is for a rank that is about to take leave of others.
func (r Ranks) partWithSignals() {
	if r.Comm.Size() > 1 {
		partWithSignals()
	}
}

// SayWaiting says what this rank waits for after a signal, once it has waited long. It says until, what is
// not there before that time.
func (r Ranks) SayWaiting(ctx context.Context, s os.Signal, until string) {
	go func() {
		if err := r.AfterSignal(ctx, s); err != nil {
			fmt.Fprintln(os.Stderr, ui.OneLine(fmt.Errorf("%w%s", err, until)))
		}
	}()
}

// ConnectingOption is the option of srun by which the MPI library that loads connects its tasks; "": none
// loads.
func ConnectingOption() string {
	library, err := mpi.Load()
	if err != nil {
		return ""
	}
	return library.SrunOption
}

// EnvironmentNumber is the number in a variable; 0: it holds none.
func EnvironmentNumber(name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return n
}

// Machine is this machine, with the given links; nil: the links between the ranks, which it measures. One
// process stands for workers workers. All ranks call it together.
func (r Ranks) Machine(workers int, links *planner.Links) (m planner.Machine, err error) {
	m.Cores, m.Sharers = cores.Count(), workers
	if r.Comm.Size() > 1 {
		n, err := r.Neighbours()
		if err != nil {
			return m, err
		}
		m.Sharers = n.Sharers[r.Rank()]
	}
	switch {
	case links != nil:
		m.Links = *links
	case r.Comm.Size() > 1:
		m.Links, err = planner.Measure(r.Comm)
	default:
		m.Links = planner.InMemory()
	}
	return m, err
}

// SharedPath is rank 0's path of a folder, made absolute, on all ranks.
func (r Ranks) SharedPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err := r.Together(err); err != nil {
		return "", err
	}
	return worker.FromFirst(r.Comm, path)
}

// location is where a rank runs.
type location struct {
	Machine string
	Memory  string      // equal for processes that may be able to open each other's memory
	Path    string      // a path of some memory, by which they try
	Cores   unix.CPUSet // the cores that the rank may use
}

func ownLocation(memory *tensor.Common) (p location) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // equal in all containers of a machine
	host, _ := os.Hostname()
	p.Machine = cmp.Or(string(boot), host)
	processes, _ := os.Readlink("/proc/self/ns/pid") // the namespace of the processes that it can see
	p.Memory, p.Path = fmt.Sprint(p.Machine, processes, os.Geteuid()), memory.Path()
	// This fails if the machine has more cores than the set has room for.
	if unix.SchedGetaffinity(0, &p.Cores) != nil {
		for i := range p.Cores {
			p.Cores[i] = ^p.Cores[i]
		}
	}
	return p
}

// shares reports whether two ranks compete for a core. A launcher may bind each rank of a machine to cores of
// its own.
func (p *location) shares(other *location) bool {
	for i, cores := range p.Cores {
		if p.Machine == other.Machine && cores&other.Cores[i] != 0 {
			return true
		}
	}
	return false
}

// neighbours has, by rank, the number of ranks (itself included) that compete for the cores that it may use,
// and the lowest rank whose memory it can open. A container or the system may forbid to open another's.
type neighbours struct{ Sharers, Machines []int }

// Neighbours are the neighbours of all ranks, which call it together.
func (r Ranks) Neighbours() (n neighbours, err error) {
	memory := tensor.NewCommon()
	defer memory.Close() // after all have tried to open it
	places, err := worker.ToFirst(r.Comm, ownLocation(memory))
	if err != nil {
		return n, err
	}
	var tries []string
	for _, p := range places {
		sharers := 0
		for other := range places {
			if p.shares(&places[other]) {
				sharers++
			}
		}
		n.Sharers = append(n.Sharers, sharers)
		lowest := slices.IndexFunc(places, func(other location) bool { return other.Memory == p.Memory })
		n.Machines, tries = append(n.Machines, lowest), append(tries, places[lowest].Path)
	}
	if tries, err = worker.FromFirst(r.Comm, tries); err != nil {
		return n, err
	}
	opened, err := tensor.OpenCommon(tries[r.Rank()])
	if err == nil {
		opened.Close()
	}
	open, err := worker.ToFirst(r.Comm, err == nil)
	if err != nil {
		return n, err
	}
	for rank, can := range open {
		if !can {
			n.Machines[rank] = rank
		}
	}
	return worker.FromFirst(r.Comm, n)
}

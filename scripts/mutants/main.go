// Command mutants tests the tests: it draws lines of Go and of Python that commits of a range have added,
// puts a mistake of the kind that people make into each, one at a time, and runs the tests that come to it.
//
//	mutants [--range HEAD~50..HEAD] [--count 48] [--seed 1] [--minutes 30] [--only TEXT]
//	        [--python 'INTERPRETER FILE...']... [-- FLAG...]
//
// The flags after -- are those of go test. A mutant of Go is tested by its package, by those that import it,
// and by the sessions of cmd/weft; one of Python by the tests in the files of --python. It is drawn in what
// cmd/weft consists of, and in functions of python/src: no tests, nothing generated, nothing that does not
// compile, and no C (scripts/device/mutants.py has a list for the kernels of cards). A mutant that no test
// can tell from what was right lives, too. A test that hangs is ended after ten times what it takes. The
// repository is read alone.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// A search is what the flags say.
type search struct {
	root, commits, only string
	count               int
	seed                uint64
	goTests             *goTests
	pyTests             *pyTests
}

func run(ctx context.Context, args []string, to io.Writer) error {
	out := &shared{Writer: to}
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	s := search{root: strings.TrimSpace(root)}
	s.pyTests = &pyTests{root: s.root, out: out, start: time.Minute}
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&s.commits, "range", "HEAD~50..HEAD", "`FIRST..LAST`: the commits whose lines are drawn")
	flags.StringVar(&s.only, "only", "", "a `text` in the names of the files")
	flags.IntVar(&s.count, "count", 48, "how many mutants")
	flags.Uint64Var(&s.seed, "seed", 1, "of the draw")
	minutes := flags.Float64("minutes", 30, "after these no mutant is tested")
	flags.Func("python", "`'INTERPRETER FILE...'`: tests of Python; again for those of another interpreter",
		func(value string) error {
			words := strings.Fields(value)
			if len(words) < 2 {
				return errors.New("it is an interpreter and files of tests")
			}
			s.pyTests.suites = append(s.pyTests.suites, suite{words[0], words[1:]})
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, time.Duration(*minutes*float64(time.Minute)))
	defer end()
	packages, err := listPackages(ctx, s.root, "./cmd/weft")
	if err != nil {
		return err
	}
	s.goTests = &goTests{packages: packages, flags: flags.Args(), out: out}
	mutants, err := s.draw(ctx)
	if err != nil {
		return err
	}
	return s.test(ctx, out, mutants)
}

// test tests mutants, one on each processor, until the time is over, and writes about each.
func (s *search) test(ctx context.Context, out io.Writer, mutants []drawn) error {
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	texts, golang, python := map[string][]byte{}, map[int]mutant{}, map[int]mutant{}
	for i, m := range mutants {
		texts[m.File] = m.before
		if s.goTests.ofFile[m.File] != nil {
			golang[i] = m.mutant
		} else {
			python[i] = m.mutant
		}
	}
	s.goTests.marks, err = newMarks(filepath.Join(folder, "marks"), s.goTests.packages, texts, golang)
	if err != nil {
		return err
	}
	jobs := runtime.NumCPU()
	next := make(chan int, len(mutants))
	for _, i := range slices.Sorted(maps.Keys(golang)) {
		next <- i
	}
	var workers sync.WaitGroup
	errs := make([]error, jobs+1)
	workers.Go(func() { // beside those of Go: all tests of Python take as long
		defer close(next)
		if len(python) == 0 {
			return
		}
		err := s.pyTests.reach(ctx, filepath.Join(folder, "reached"), texts, python)
		if err != nil {
			errs[jobs] = err
			return
		}
		for _, i := range slices.Sorted(maps.Keys(python)) {
			next <- i
		}
	})
	var tested, died atomic.Int64
	for job := range jobs {
		workers.Go(func() {
			own := filepath.Join(folder, strconv.Itoa(job))
			if errs[job] = os.Mkdir(own, 0o777); errs[job] == nil && len(python) > 0 {
				errs[job] = s.pyTests.copyTo(ctx, own)
			}
			for i := range next {
				if errs[job] != nil || ctx.Err() != nil {
					return
				}
				m, began := mutants[i], time.Now()
				var v verdict
				if _, ok := golang[i]; ok {
					v, errs[job] = s.goTests.try(ctx, own, i, m.mutant, m.after)
				} else {
					v, errs[job] = s.pyTests.try(ctx, own, i, m.mutant, m.after)
				}
				if errs[job] != nil {
					return
				}
				if v.compiled {
					tested.Add(1)
				}
				if v.dead {
					died.Add(1)
				}
				write(out, m, v, time.Since(began))
			}
		})
	}
	workers.Wait()
	fmt.Fprintf(out, "%d of %d mutants died; seed %d drew %d of %s\n",
		died.Load(), tested.Load(), s.seed, len(mutants), s.commits)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		fmt.Fprintln(out, "the time is over: --minutes gives more")
		return nil
	}
	return cmp.Or(ctx.Err(), errors.Join(errs...))
}

// A shared writer is written to by several goroutines.
type shared struct {
	sync.Mutex
	io.Writer
}

func (s *shared) Write(text []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.Writer.Write(text)
}

// write writes what became of a mutant.
func write(out io.Writer, m drawn, v verdict, took time.Duration) {
	end := "LIVES"
	if v.dead {
		end = "dies"
	} else if !v.compiled {
		end = "does not compile"
	}
	before, after := m.lines()
	fmt.Fprintf(out, "%s  %s:%d  %s  %s  %.0f s\n\t- %s\n\t+ %s\n",
		end, m.File, m.Line, m.Kind, cmp.Or(v.by, "-"), took.Seconds(), before, after)
}

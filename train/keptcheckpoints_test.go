package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/checkpoint"
	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/setting"
)

// Which checkpoints are kept, and what happens where one is damaged, missing, or cannot be written.

// TestCheckpointsAreKept: the last two stay of those after every other epoch, or after the next where the
// disk is slow. A damaged one is passed over, which is said. The run that continues from the one before
// equals the run that never stopped.
func TestCheckpointsAreKept(t *testing.T) {
	o := resumes()["sage graph=3"]
	o.CheckpointEvery = setting.Interval{Epochs: 2}
	o.Epochs = 8
	g, folder := graphFor(t, &o), filepath.Join(t.TempDir(), "checkpoints")
	j := &Job{Graph: g, Options: o}
	follow(j, folder, nil)
	var saved []int
	j.Checkpoints.OnSaved = func(s Saved) {
		if s.Err != nil || s.Bytes == 0 {
			t.Errorf("%+v", s)
		}
		saved = append(saved, s.Epoch)
	}
	want := mustRun(t, j)
	kept, err := checkpoint.Epochs(folder)
	onDisk := int64(0)
	for rank := range 3 {
		info, err := os.Stat(filepath.Join(folder, "epoch-000000008",
			fmt.Sprintf("worker-%d.safetensors", rank)))
		require.NoError(t, err)
		onDisk += info.Size()
	}
	if c := want.Checkpoints; c.Written != len(saved) || c.Bytes != onDisk {
		t.Errorf("%d checkpoints, the last of %d bytes: reported %+v", len(saved), onDisk, c)
	}
	if n := len(saved); err != nil || n < 2 || saved[0] != 2 || saved[n-1] != 8 ||
		!slices.Equal(kept, []int{8, saved[n-2]}) {
		t.Fatalf("saved %d, kept %d, %v", saved, kept, err)
	}
	for name, damage := range map[string]func(path string) error{
		"cut":     func(path string) error { return os.Truncate(path, 100) },
		"removed": os.Remove,
		"flipped": func(path string) error {
			text, err := os.ReadFile(path)
			text[len(text)-1] ^= 1
			return errors.Join(err, os.WriteFile(path, text, 0o666))
		},
	} {
		for _, file := range []string{"worker-1.safetensors", "manifest.json"} {
			t.Run(name+" "+file, func(t *testing.T) {
				copied := filepath.Join(t.TempDir(), "checkpoints")
				require.NoError(t, os.CopyFS(copied, os.DirFS(folder)))
				require.NoError(t, damage(filepath.Join(copied, "epoch-000000008", file)))
				var passed []error
				from, err := OpenLast(launch.Ranks{Comm: comm.Alone()}, copied,
					func(err error) { passed = append(passed, err) })
				if err != nil || from == nil || from.Epoch != kept[1] || len(passed) != 1 {
					t.Fatalf("%v, %v, %v", from, err, passed)
				}
				defer from.Close()
				again := &Job{Graph: g, Options: o}
				follow(again, copied, from)
				equalRuns(t, mustRun(t, again), want)
			})
		}
	}
}

// TestAllCheckpointsAreDamaged: a run without a whole checkpoint begins again, whatever is damaged.
func TestAllCheckpointsAreDamaged(t *testing.T) {
	for _, file := range []string{"worker-0.safetensors", "manifest.json"} {
		t.Run(file, func(t *testing.T) {
			o := resumes()["sage graph=3"]
			g := graphFor(t, &o)
			from, folder := stopped(t, g, o, 2)
			require.NoError(t, from.Close())
			epochs, err := checkpoint.Epochs(folder)
			require.NoError(t, err)
			for _, epoch := range epochs {
				require.NoError(t,
					os.Truncate(filepath.Join(folder, fmt.Sprintf("epoch-%09d", epoch), file), 10))
			}
			passed := 0
			from, err = OpenLast(launch.Ranks{Comm: comm.Alone()}, folder, func(error) { passed++ })
			if err != nil || from != nil || passed != len(epochs) {
				t.Errorf("%v, %v, %d of %d passed over", from, err, passed, len(epochs))
			}
		})
	}
}

// TestUnreadableCheckpoints: what the system does not let a run read is not damaged: the run fails, as it
// would else begin again and remove its checkpoints.
func TestUnreadableCheckpoints(t *testing.T) {
	for name, replaced := range map[string]string{
		"folder": "", "checkpoint": "epoch-000000002/manifest.json",
		"file": "epoch-000000002/worker-0.safetensors",
	} {
		t.Run(name, func(t *testing.T) {
			o := resumes()["sage alone"]
			g := graphFor(t, &o)
			_, folder := stopped(t, g, o, 2)
			path := filepath.Join(folder, replaced)
			require.NoError(t, cmp.Or(os.RemoveAll(path), os.Symlink(path, path))) // a link to itself
			from, err := OpenLast(launch.Ranks{Comm: comm.Alone()}, folder,
				func(err error) { t.Errorf("passed over: %v", err) })
			if from != nil || err == nil || refusal.Is(err) && name != "folder" ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%v, %v", from, err)
			}
		})
	}
}

// TestMissingFile: a file that is nowhere is damage in whichever rank's part it is: all pass over the
// checkpoint.
func TestMissingFile(t *testing.T) {
	o := resumes()["sage graph=3"]
	g := graphFor(t, &o)
	c, folder := stopped(t, g, o, 2)
	file := filepath.Join(c.Path, "worker-1.safetensors")
	require.NoError(t, os.Remove(file))
	var passed []error
	err := launch.Workers(2, 0, func(peers *comm.Comm) error {
		from, err := OpenLast(launch.Ranks{Comm: peers}, folder,
			func(err error) { passed = append(passed, err) })
		if from != nil {
			t.Errorf("opened %s", from.Path)
		}
		return err
	})
	if err != nil || len(passed) != 1 || !refusal.IsDamaged(passed[0]) ||
		!strings.Contains(passed[0].Error(), file) {
		t.Errorf("error %v, passed over: %v", err, passed)
	}
}

// TestCheckpointsOfOneMachine: what rank 1 does not find is on another machine, not damaged. A file of which
// rank 1 finds a byte changed is damaged, in the words of the rank that compares it.
func TestCheckpointsOfOneMachine(t *testing.T) {
	o := resumes()["sage graph=3"]
	g := graphFor(t, &o)
	c, folder := stopped(t, g, o, 2)
	file := filepath.Join(c.Path, "worker-1.safetensors")
	for _, shared := range []bool{false, true} {
		err := launch.Workers(2, 0, func(peers *comm.Comm) error {
			r, local := launch.Ranks{Comm: peers}, folder
			if r.Rank() == 1 && !shared {
				local = t.TempDir()
			}
			from, err := OpenLast(r, local, func(err error) {
				if !shared || !strings.Contains(err.Error(), "rank 1: "+file+": damaged: ") {
					t.Errorf("passed over: %v", err)
				}
			})
			if from != nil {
				t.Errorf("shared %v: opened %s", shared, from.Path)
			}
			return err
		})
		if shared != (err == nil) ||
			!shared && (refusal.Is(err) || !strings.Contains(err.Error(), "rank 1: ") ||
				!strings.Contains(err.Error(), "shared file system")) {
			t.Errorf("shared %v: %v", shared, err)
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		text[8] ^= 1 // in the header
		require.NoError(t, os.WriteFile(file, text, 0o666))
	}
}

// TestCheckpointsFail: a run whose checkpoints cannot be written says why and goes on. The disk must have as
// many bytes as the plan says for the files of all workers, besides those of the results.
func TestCheckpointsFail(t *testing.T) {
	o := resumes()["sage graph=3"]
	o.CheckpointEvery = setting.Interval{Epochs: 1}
	g := graphFor(t, &o)
	want := mustRun(t, &Job{Graph: g, Options: o})
	const spare = 1 << 60
	for name, c := range map[string]struct {
		spare int64
		store func() (string, error)
		want  string
	}{
		"full":  {spare, g.Checksum, ""},
		"fails": {0, func() (string, error) { return "", errors.New("a fault") }, "worker 0: a fault"},
		"panic": {0, func() (string, error) { panic("a fault") }, "worker 0: internal error: a fault"},
	} {
		t.Run(name, func(t *testing.T) {
			j, folder := &Job{Graph: g, Options: o}, filepath.Join(t.TempDir(), "checkpoints")
			follow(j, folder, nil)
			p, err := j.Plan(context.Background())
			require.NoError(t, err)
			if c.spare > 0 {
				for _, w := range p.Workers {
					c.spare += w.Checkpoint
				}
				c.want = fmt.Sprintf("a checkpoint and the results take %.1f MB", float64(c.spare)/1e6)
				j.Checkpoints.KeepFree = spare
			}
			j.Checkpoints.Store = c.store
			failed := 0
			j.Checkpoints.OnSaved = func(s Saved) {
				if failed++; s.Err == nil || !strings.Contains(s.Err.Error(), c.want) {
					t.Errorf("%+v, want %q", s, c.want)
				}
			}
			equalRuns(t, mustRun(t, j), want)
			if left, err := os.ReadDir(folder); err != nil || len(left) != 0 || failed == 0 {
				t.Errorf("left %v, %v, after %d checkpoints", left, err, failed)
			}
		})
	}
}

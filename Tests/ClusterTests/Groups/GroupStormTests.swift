import TestBasics
import Testing

@testable import Cluster

/// Share groups whose members come and go on all nodes. `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17`
/// runs that one.
struct GroupStormTests {
    @Test(arguments: Seeds.parts(20, perPart: 10))
    func `each message reaches one member of a group over all nodes, whoever comes and goes`(seeds: ClosedRange<UInt64>) {
        var (whole, givenUp) = (0, 0)
        for seed in seeds {
            let world = BusWorld(seed: seed)
            for _ in 0..<80 { world.stepGroups() }
            world.clock.run(for: 10_000_000)
            whole += world.checkGroups().whole
            givenUp += world.givenUp.count
            #expect(world.failures.isEmpty, "\(world): \(Seeds.replay(seed))")
        }
        // Of one seed there may be few.
        if seeds.count >= 10 { #expect(whole > 100 && givenUp * 20 < whole) }
    }

    @Test(arguments: Seeds.parts(20, perPart: 10))
    func `after connections, servers and nodes have come and gone each message reaches one member again`(seeds: ClosedRange<UInt64>)
    {
        for seed in seeds {
            let world = BusWorld(seed: seed)
            world.isProbing = false
            for _ in 0..<40 {
                world.stepGroups()
                world.step(faults: true)
            }
            world.heal()
            // Until the last has heard whose lease has ended.
            world.clock.run(for: 40_000_000)
            let first = (world.messages.keys.max() ?? 0) + 1
            for _ in 0..<20 { world.stepGroups() }
            world.clock.run(for: 10_000_000)
            _ = world.checkGroups(from: first)
            #expect(world.failures.isEmpty, "\(world): \(Seeds.replay(seed))")
        }
    }
}

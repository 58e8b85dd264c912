import BrokerCore
import MartletTestKit
import TestBasics
import Testing

/// Nothing that was acknowledged is lost, and nothing of QoS 2 comes twice, wherever the power goes.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct CrashTests {
    @Test(
        .statement("MQTT-4.3.2-4", .v5), .statement("MQTT-4.3.3-10", .v5), .timeLimit(.minutes(10)),
        arguments: Seeds.parts(100, perPart: 25))
    func `crashes at any time lose nothing and repeat nothing`(seeds: ClosedRange<UInt64>) {
        var deeds = CrashSimulation.Deeds()
        for seed in seeds {
            var simulation = CrashSimulation(seed: seed)
            simulation.run(actions: 120)
            #expect(
                simulation.objections.isEmpty,
                "shards \(simulation.broker.shardCount), full \(simulation.hadFullDisk) \(simulation.objections.prefix(3)): \(Seeds.replay(seed))"
            )
            #expect(simulation.deeds.crashes >= 1 && simulation.deeds.resumedSessions >= 5, "\(Seeds.replay(seed))")
            deeds += simulation.deeds
        }
        // A simulation that does nothing would find nothing. Of one seed there may be little.
        guard seeds.count >= 10 else { return }
        #expect(deeds.crashes >= 4 * seeds.count)
        #expect(deeds.acknowledged >= 10 * seeds.count)
        #expect(deeds.received >= 30 * seeds.count)
        #expect(deeds.recoveredRows >= 20 * seeds.count)
        #expect(deeds.resumedSessions >= 15 * seeds.count)
        #expect(deeds.purged >= seeds.count / 4)
        #expect(deeds.dispatchedToPassing >= seeds.count / 10)
    }
}

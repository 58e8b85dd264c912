import BrokerCore
import MartletTestKit
import TestBasics
import Testing

/// What share groups have dispatched to sessions is not lost, whichever nodes are lost with their disks.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct DispatchedStepStormTests {
    @Test(.statement("MQTT-4.8.2-4", .v5), .timeLimit(.minutes(60)), arguments: Seeds.parts(60, perPart: 20))
    func `each message comes to a member of the group, and of QoS 2 once, whichever nodes are lost with their disks`(
        seeds: ClosedRange<UInt64>
    ) {
        var deeds = DispatchedStepStorm.Deeds()
        for seed in seeds {
            var storm = DispatchedStepStorm(seed: seed)
            storm.run()
            #expect(storm.objections.isEmpty, "\(Seeds.replay(seed))")
            deeds += storm.deeds
        }
        guard seeds.count >= 10 else { return }
        #expect(deeds.losses == 2 * seeds.count && deeds.crashes >= seeds.count / 4, "\(deeds)")
        #expect(deeds.absences >= 1 && deeds.hangs >= 1, "\(deeds)")
        #expect(deeds.hops >= seeds.count / 8, "\(deeds)")
        #expect(deeds.exact >= 5 * seeds.count && deeds.held >= seeds.count / 4, "\(deeds)")
    }
}

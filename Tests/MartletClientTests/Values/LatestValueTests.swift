import MartletClient
import Platform
import Testing

@Suite struct LatestValueTests {
    /// The last value and the end behind it may come in the moment in which somebody looks: tried at many moments.
    @Test func `whoever follows sees the last value, however close behind it the end is`() async {
        for round in 0..<5000 {
            let value = LatestValue(0)
            let last = Task {
                var seen = -1
                for await newer in value.values { seen = newer }
                return seen
            }
            for _ in 0..<(round % 100) { _ = value.value }
            value.set(1)
            value.finish()
            guard await last.value == 1 else {
                Issue.record("the last value was missed in round \(round)")
                return
            }
        }
    }
}

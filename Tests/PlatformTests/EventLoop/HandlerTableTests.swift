import Testing

@testable import Platform

@Suite struct HandlerTableTests {
    /// Every sequence of 8 steps, each an insertion or the removal of one of the tenants, against a dictionary.
    @Test func `every short history of tenants agrees with a dictionary`() {
        var histories = 0

        func explore(_ table: HandlerTable, _ tenants: [Registration: Int32], _ gone: [Registration], steps: Int) {
            #expect(table.count == tenants.count)
            for (registration, descriptor) in tenants {
                #expect(table[registration]?.descriptor.rawValue == descriptor)
            }
            #expect(gone.allSatisfy { table[$0] == nil })
            if steps == 0 {
                histories += 1
                return
            }
            var grown = table
            let descriptor = Int32(steps)
            let registration = grown.insert(
                .init(handler: ClosureHandler(), descriptor: .init(rawValue: descriptor), interest: .readable))
            #expect(tenants[registration] == nil && !gone.contains(registration))
            explore(grown, tenants.merging([registration: descriptor]) { $1 }, gone, steps: steps - 1)
            for leaving in tenants.keys.sorted(by: { $0.index < $1.index }) {
                var shrunk = table
                #expect(shrunk.remove(leaving)?.descriptor.rawValue == tenants[leaving])
                #expect(shrunk.remove(leaving) == nil)
                explore(shrunk, tenants.filter { $0.key != leaving }, gone + [leaving], steps: steps - 1)
            }
        }
        explore(HandlerTable(), [:], [], steps: 7)
        #expect(histories > 200)
    }

    @Test func `a registration survives its way through the kernel`() {
        for registration in [Registration(index: 0, generation: 1), Registration(index: 19_999, generation: .max)] {
            #expect(Registration(eventData: registration.eventData) == registration)
        }
    }

    @Test func `a hundred thousand tenants come and go`() {
        var table = HandlerTable()
        let handler = ClosureHandler()
        let registrations = (0..<100_000).map {
            table.insert(.init(handler: handler, descriptor: .init(rawValue: Int32($0)), interest: []))
        }
        #expect(table.count == 100_000)
        for registration in registrations { _ = table.remove(registration) }
        #expect(table.count == 0)
        #expect(registrations.allSatisfy { table[$0] == nil })
    }
}

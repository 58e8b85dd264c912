/// The timer wheel with a million timers.
func measureTimers(_ meter: inout Meter) {
    guard meter.wants("timers") else { return }
    let count = 1_000_000
    let subject = TimerSubject(kind: .connection, index: 0, generation: 0)
    let before = liveBytes()
    var wheel = TimerWheel(now: 0)
    meter.measure("timers/arm, from none to a million", samples: 1, operations: count) { operations in
        for index in 0..<operations { _ = wheel.arm(subject, at: UInt64(index % 90_000) + 1000) }
    }
    meter.tell("timers/memory of a timer", Double(liveBytes() - before) / Double(count), "bytes")
    meter.measure("timers/arm and disarm, among a million") { operations in
        for index in 0..<operations { wheel.disarm(wheel.arm(subject, at: UInt64(index % 90_000) + 1000)) }
    }
    meter.measure("timers/expire all within 90 s", samples: 1, operations: count) { _ in
        var fired = 0
        for now in stride(from: UInt64(0), through: 92_000, by: 100) {
            while wheel.popExpired(now: now) != nil { fired += 1 }
        }
        precondition(fired == count)
    }
}

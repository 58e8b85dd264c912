/// The requests that wait for an answer. All answers come to one subscription: `_INBOX.<session>.<number>`.
struct RequestTable {
    /// The number of its subscription, the first.
    static let subscription: UInt64 = 1

    private let prefix: [UInt8]
    /// Until when each is waited for, by its number.
    private var waiting: [UInt64: UInt64] = [:]
    private var lastNumber: UInt64 = 0
    /// The earliest deadline, or one before it that was another request's.
    private(set) var nextDeadline: UInt64?

    init(random: inout some RandomNumberGenerator) {
        let name = String(UInt64.random(in: .min ... .max, using: &random), radix: 36)
        let more = String(UInt64.random(in: .min ... .max, using: &random), radix: 36)
        prefix = Array("_INBOX.\(name)\(more).".utf8)
    }

    /// The pattern that is subscribed to.
    var pattern: SubjectPattern { SubjectPattern(checked: prefix + [UInt8(ascii: "*")]) }

    /// Notes a request; returns its number and where its answer is to go, nil if too many wait.
    mutating func add(until deadline: UInt64) -> (number: UInt64, inbox: Subject)? {
        guard waiting.count < Limits.requestsMax else { return nil }
        lastNumber += 1
        waiting[lastNumber] = deadline
        nextDeadline = min(nextDeadline ?? deadline, deadline)
        return (lastNumber, Subject(checked: prefix + String(lastNumber).utf8))
    }

    /// An answer has come; returns the number of its request. Nil for one that nobody waits for any more.
    mutating func take(_ subject: UnsafeRawBufferPointer) -> UInt64? {
        guard subject.starts(with: prefix), let number = UInt64(String(decoding: subject.dropFirst(prefix.count), as: UTF8.self))
        else { return nil }
        return waiting.removeValue(forKey: number) == nil ? nil : number
    }

    /// Gives those that have waited for too long, oldest first. O(requests) when one may be.
    mutating func takeLate(now: UInt64, _ body: (UInt64) -> Void) {
        guard let nextDeadline, nextDeadline <= now else { return }
        for number in waiting.filter({ $0.value <= now }).keys.sorted() {
            waiting[number] = nil
            body(number)
        }
        self.nextDeadline = waiting.values.min()
    }

    mutating func takeAll(_ body: (UInt64) -> Void) {
        for number in waiting.keys.sorted() { body(number) }
        waiting = [:]
        nextDeadline = nil
    }
}

extension Limits {
    /// Requests that wait for their answer; more are not taken. Bytes: `subjectBytesMax` each at most.
    static let requestsMax = 4_096
}

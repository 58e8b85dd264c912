internal import ClientStore

/// What messages of the outbox belong to beside it, and who hears how far they have come. Only those that belong to something are in it. Belongs
/// to the loop's thread.
struct OutboxOwners {
    /// Hears of each newer status, on the loop's thread; `.failed(.ended)` when the client ends before the message is over.
    typealias Observer = @Sendable (DeliveryStatus) -> Void

    private var owners: [UInt64: OutboxOwner]
    private var observers: [UInt64: [Observer]] = [:]

    init(_ stored: [(number: UInt64, owner: OutboxOwner)]) {
        owners = Dictionary(stored.map { ($0.number, $0.owner) }) { $1 }
    }

    subscript(number: UInt64) -> OutboxOwner? { owners[number] }

    mutating func add(_ owner: OutboxOwner, of number: UInt64, _ observer: Observer?) {
        owners[number] = owner
        if let observer { observers[number, default: []].append(observer) }
    }

    /// As above, of a message that an earlier run has left. Returns whether it is there still.
    mutating func observe(_ number: UInt64, _ observer: @escaping Observer) -> Bool {
        guard owners[number] != nil else { return false }
        observers[number, default: []].append(observer)
        return true
    }

    /// A message has come so far. Returns what is to be written.
    mutating func tell(_ number: UInt64, _ status: DeliveryStatus) -> [StoreChange] {
        guard !owners.isEmpty, owners[number] != nil else { return [] }
        for observer in observers[number] ?? [] { observer(status) }
        guard status.isFinal else { return [] }
        owners[number] = nil
        observers[number] = nil
        return [OutboxOwner.remove(number)]
    }

    /// What messages belong to is gone; they are sent all the same. Returns what is to be written.
    mutating func release(_ gone: Set<OutboxOwner>) -> [StoreChange] {
        let numbers = owners.filter { gone.contains($0.value) }.keys.sorted()
        for number in numbers { owners[number] = nil }
        return numbers.map { OutboxOwner.remove($0) }
    }

    /// The client has ended.
    mutating func end() {
        let all = observers.sorted { $0.key < $1.key }.flatMap(\.value)
        observers = [:]
        for observer in all { observer(.failed(.ended)) }
    }
}

extension ClientEngine {
    /// Observes messages of the outbox that an earlier run has left. One that is over meanwhile is taken for acknowledged.
    func observe(_ observers: [(number: UInt64, observer: OutboxOwners.Observer)]) {
        for (number, observer) in observers {
            guard let records, records.failure == nil else {
                observer(.failed(.ended))
                continue
            }
            guard records.owners.observe(number, observer) else {
                observer(.acknowledged)
                continue
            }
            if records.outbox.isInFlight(number) { observer(.sent) }
        }
    }
}

/// A cursor as text, for who hands it to others: two numbers.
extension ShardCursor: LosslessStringConvertible {
    public init?(_ text: String) {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false)
        guard numbers.count == 2, let place = UInt32(numbers[0]), let member = UInt64(numbers[1]) else { return nil }
        self.init(place: place)
        self.member = member
    }

    public var description: String { "\(place).\(member)" }
}

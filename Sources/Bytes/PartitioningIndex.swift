extension RandomAccessCollection {
    /// The first place whose element is behind a point; the end if none is. O(log n).
    ///
    /// Public, though only the house's own targets use it: what is inlinable is inlined into other targets if it is
    /// public.
    ///
    /// - Parameter isBehind: holds of no element in front of one of which it does not hold.
    @inlinable
    public func partitioningIndex(where isBehind: (Element) -> Bool) -> Index {
        var (low, count) = (startIndex, self.count)
        while count > 0 {
            let middle = index(low, offsetBy: count / 2)
            if isBehind(self[middle]) {
                count /= 2
            } else {
                low = index(after: middle)
                count -= count / 2 + 1
            }
        }
        return low
    }
}

#if !Logging && !Metrics && !Tracing && !ServiceLifecycle
    import Testing

    @Suite struct WithoutTraitsTests {
        @Test func `without a trait there is nothing to test`() {}
    }
#endif

"""Routes of reviews and questions, under /api."""

from commerce.reviews.views import MyQuestionViewSet, QuestionViewSet, ReviewViewSet
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("reviews", ReviewViewSet)
router.register("questions", QuestionViewSet)
router.register("my-questions", MyQuestionViewSet, "my-question")

urlpatterns = router.urls
